//! Planted bugs, to prove that the tests would find them.
//!
//! With the feature `mutants`, one of these can be switched on in a process; the conformance suite
//! must then fail. Without the feature [`planted`] is a constant `false` and costs nothing.

/// A planted bug. The name says what goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs, reason = "each name is the documentation")]
pub enum Mutant {
    // The shared floors: caught under every protocol.
    OwnWritesUnseen = 1,
    DeleteLeavesRow,
    IndexEntryNotMoved,
    ScanSkipsFirstOfLeaf,
    ScanOutlivesAttempt,
    AddAppliedTwice,
    // What is added to one of two columns that share a word is carried into the other.
    AddCarries,
    SnapshotReadsNewest,
    SnapshotVersionNotKept,
    SnapshotNotClosed,
    // Whoever drops a boundary does not look who holds it.
    SnapshotHoldsNotAsked,
    // Where writes are taken back, one stays, so that a row and its entries differ; or what was changed of earlier ones
    // stays; or what those that are no more have found is not read, so that nothing checks it.
    TakenBackButOne,
    TakenBackChangesStay,
    TakenBackNotRead,
    // A write that was begun before its row was looked at stays where there is no row.
    BegunWriteStays,
    // An insert takes back a look at its gap that was for something else.
    AnyInsertSought,
    // A row that was read in place is believed although it changed meanwhile. Not in simulation: no row is read in
    // place there.
    SightNotChecked,
    // A value outside of its row: its block is another's while it is read, or while a snapshot would read it; it is changed
    // where it lies; its bytes are not yet in the log when its row is; less of it is seen than there is; the index entry of
    // what it was stays.
    ValueFreedEarly,
    ValueFreedUnderSnapshot,
    ValueOverwritten,
    ValueLoggedLate,
    ValueReadTorn,
    ValueEntryKept,
    // Silo.
    SiloReadsNotValidated,
    SiloGapsNotValidated,
    SiloForeignLockIgnored,
    SiloUnlockedBeforeInstall,
    SiloStampTakenAfterCopy,
    SiloWritesNotLocked,
    SiloReadsNotOpaque,
    // Hardware regions, on virtual cores: a lock is not seen by a read, or by who takes it; a row that is gone, or there, is not
    // seen at the commit; what was read in software is checked before the region that takes the locks; the locks are not set.
    // The lock of a partition is not seen by a region; what is executed in software takes it only at its commit.
    HtmLockIgnored,
    HtmLockOverLock,
    HtmPresenceUnchecked,
    HtmValidatedEarly,
    HtmNotLocked,
    HtmPartitionUnseen,
    HtmPartitionLate,
    // Calls that commit in parts: the parts are of several epochs; a closure runs beside a call; whoever waits for the parts of
    // another has the turn that this one wants.
    PartsInOwnEpochs,
    PartsBesideClosure,
    PartsAwaitedWithTurn,
    // Deferred additions: what one worker has put off is forgotten, or made twice; a call begins before earlier ones are made; a
    // piece that is executed again puts its additions off again; the epoch closes before they are made; procedures that
    // could tell are registered.
    ShelfLost,
    ShelfMadeTwice,
    ShelfSubscriberEarly,
    ShelfPieceRepeated,
    ShelfEpochNotHeld,
    ShelfPremiseUnchecked,
    // They are made in an epoch behind that of their call.
    ShelfInLaterEpoch,
    // Lazy snapshot numbers: additions are of the epoch of the end; the epoch goes on before the end; an addition that is late is not
    // made in the version of its epoch, or in one of an earlier epoch, too; it is logged as of its epoch only, or as of the next
    // only; what it needs is not kept.
    LazyNumberAtEnd,
    LazyNumberNotHeld,
    RedoLost,
    RedoInOldest,
    RedoLogged,
    RedoNotLogged,
    RedoVersionNotKept,
    // TicToc.
    TicTocVersionNotCompared,
    TicTocForeignLockIgnored,
    TicTocWriteAtReadTime,
    TicTocGapStampIgnored,
    TicTocReadTimeNotRaised,
    TicTocGapsNotValidated,
    TicTocSnapshotOverwrites,
    TicTocUpdateLost,
    TicTocReadsNotOpaque,
    TicTocHistoryNotCompared,
    // Two-phase locking.
    LockingReadLockReleasedEarly,
    LockingGapsNotValidated,
    LockingUpgradeNotTaken,
    LockingSharedDespiteWriter,
    LockingWriteLockNotTaken,
    LockingUpdateLost,
    // Its deadlock detection and its order. Of some the suite does not end.
    DetectNothingSought,
    DetectReadersIgnored,
    DetectFirstLockUnpublished,
    DetectVictimGoesOn,
    OrderIgnored,
    OrderOfLastLockOnly,
    // Times from a counter.
    AllocationAtBegin,
    AllocationBelowFloor,
    // Intervals of timestamps.
    DtaOverwriterIgnored,
    DtaReadersIgnored,
    DtaInsertNotAfterAll,
    DtaReadVersionIgnored,
    DtaGapsNotValidated,
    // Hekaton.
    HekatonReadsNewest,
    HekatonWriteNotLocked,
    HekatonReadsNotValidated,
    HekatonGapsNotValidated,
    HekatonVersionNotKept,
    HekatonNewerOverwritten,
    HekatonPreparingIgnored,
    HekatonDependencyIgnored,
    HekatonEndBeforePreparing,
    HekatonCutTooMuch,
    // IC3.
    Ic3RankNotAwaited,
    Ic3CommitOrderIgnored,
    Ic3AbortNotFollowed,
    Ic3PieceNotValidated,
    Ic3ReadersNotAwaited,
    Ic3ImageWithoutLastWriter,
    Ic3ScanLeavesNoBit,
    Ic3InsertIgnoresScanners,
    Ic3WithdrawalKeepsVersion,
    Ic3ClosureIgnoresAccessors,
    Ic3VerdictBeforeWait,
    Ic3LockTakenEarly,
    Ic3PassedNotChecked,
    Ic3DeletionNotFollowed,
    Ic3DeletedFilledUnseen,
    // Deferred runtime pipelining.
    DrpPassedBeforeSwap,
    DrpTurnNotAwaited,
    DrpTailStored,
    DrpReadsNotCertified,
    DrpTailNotCertified,
    DrpGapsNotCertified,
    DrpPassedAll,
    DrpGenerationIgnored,
    DrpDecisionsNotAwaited,
    DrpHeldNotAwaited,
    DrpEpochEarly,
    DrpTimeFalls,
    DrpNullDoneEarly,
    DrpVerdictIgnored,
    DrpSealedOverTail,
    DrpSealNotAwaited,
    DrpOwnRecordFilledUnseen,
    DrpReadsNotOpaque,
    DrpDecidedBeforeMade,
    DrpTakenFromOthers,
    DrpPresentTaken,
    DrpAppliedNotValidated,
    // Calls in two phases.
    SequencedPointsIgnored,
    SequencedScansIgnored,
    SequencedLaterNotAwaited,
    SequencedNowNotAwaited,
    GraphCallsNotAwaited,
    GraphQuietThoughWritten,
    // Batches: of several who share a cell the next waits for one; who joins others waits for nobody before them; a call begins when
    // the first before it has ended; it counts as ended when it begins; a wider range is not in its granule; of two calls the later is
    // taken first; a batch begins before the last call of the one before has ended; who sleeps is not called.
    GatheredOpenIgnored,
    GatheredSharersForgotten,
    GatheredBeforeDropped,
    GatheredReleasedEarly,
    GatheredEndedEarly,
    GatheredGranuleTooNarrow,
    GatheredOutOfOrder,
    GatheredNextEarly,
    GatheredNobodyCalled,
    // Pieces; of the last two: a call keeps what it has not come to; it accesses what it has not told.
    PieceNotAwaited,
    PieceLetGoEarly,
    PieceInOwnEpoch,
    PieceKeptAtEnd,
    PieceUnforeseen,
    DecidesInPhase,
    // Windows of a few instructions: found in simulation, see `is_rare`.
    TreeChildNotRechecked,
    TicTocSafeAtEqual,
    TicTocFailedRaiseTrusted,
    SiloEpochBeforeLocks,
    // Durability: caught by crashes.
    LogAckedBeforeSync,
    LogFailureForgotten,
    LogEpochClosedEarly,
    CommandNeverAlone,
    CommandWithinForgotten,
    CommandReadsForgotten,
    CommandUnforeseen,
    CommandInCheckpoint,
    CommandsOutOfOrder,
    LogDeleteNotLogged,
    LogImageBeforeInstall,
    LogManifestNameNotSynced,
    LogResumedInTheOldFiles,
    LogResumedWithoutTheTaken,
    RecoveryOrderByFile,
    RecoveryTornRoundReplayed,
    RecoveryOpenEpochsReplayed,
    RecoveryGenerationNotEnded,
    RecoveryEpochTooLow,
    RecoveryTailNotRewritten,
    RecoveryManifestTrusted,
    BackupManifestFirst,
    CopyLinkNotChecked,
    CopyManifestFirst,
    CopyRoundSkipped,
    RestoreAnEpochTooLate,
    CheckpointLogDroppedEarly,
    CheckpointNotClosed,
    CheckpointPartNotSynced,
    // Indexes that are added and removed.
    IndexBuiltFromCheckpointOnly,
    IndexBuiltOfPartOfTheRows,
    IndexUnbuiltTrusted,
    IndexRemovedKept,
    MigrationOldFilesRemovedFirst,
    SchemaNotValidated,
}

#[cfg(feature = "mutants")]
impl Mutant {
    /// Every planted bug.
    pub const ALL: &'static [Self] = &[
        Self::OwnWritesUnseen,
        Self::DeleteLeavesRow,
        Self::IndexEntryNotMoved,
        Self::ScanSkipsFirstOfLeaf,
        Self::ScanOutlivesAttempt,
        Self::AddAppliedTwice,
        Self::AddCarries,
        Self::SnapshotReadsNewest,
        Self::SnapshotVersionNotKept,
        Self::SnapshotNotClosed,
        Self::SnapshotHoldsNotAsked,
        Self::TakenBackButOne,
        Self::TakenBackChangesStay,
        Self::TakenBackNotRead,
        Self::BegunWriteStays,
        Self::AnyInsertSought,
        Self::SightNotChecked,
        Self::ValueFreedEarly,
        Self::ValueFreedUnderSnapshot,
        Self::ValueOverwritten,
        Self::ValueLoggedLate,
        Self::ValueReadTorn,
        Self::ValueEntryKept,
        Self::SiloReadsNotValidated,
        Self::SiloGapsNotValidated,
        Self::SiloForeignLockIgnored,
        Self::SiloUnlockedBeforeInstall,
        Self::SiloStampTakenAfterCopy,
        Self::SiloWritesNotLocked,
        Self::SiloReadsNotOpaque,
        Self::TicTocVersionNotCompared,
        Self::TicTocForeignLockIgnored,
        Self::TicTocWriteAtReadTime,
        Self::TicTocGapStampIgnored,
        Self::TicTocReadTimeNotRaised,
        Self::TicTocGapsNotValidated,
        Self::TicTocSnapshotOverwrites,
        Self::TicTocUpdateLost,
        Self::TicTocReadsNotOpaque,
        Self::TicTocHistoryNotCompared,
        Self::LockingReadLockReleasedEarly,
        Self::LockingGapsNotValidated,
        Self::LockingUpgradeNotTaken,
        Self::LockingSharedDespiteWriter,
        Self::LockingWriteLockNotTaken,
        Self::LockingUpdateLost,
        Self::DetectNothingSought,
        Self::DetectReadersIgnored,
        Self::DetectFirstLockUnpublished,
        Self::DetectVictimGoesOn,
        Self::OrderIgnored,
        Self::OrderOfLastLockOnly,
        Self::AllocationAtBegin,
        Self::AllocationBelowFloor,
        Self::HtmLockIgnored,
        Self::HtmLockOverLock,
        Self::HtmPresenceUnchecked,
        Self::HtmValidatedEarly,
        Self::HtmNotLocked,
        Self::HtmPartitionUnseen,
        Self::HtmPartitionLate,
        Self::PartsInOwnEpochs,
        Self::PartsBesideClosure,
        Self::PartsAwaitedWithTurn,
        Self::ShelfLost,
        Self::ShelfMadeTwice,
        Self::ShelfSubscriberEarly,
        Self::ShelfPieceRepeated,
        Self::ShelfEpochNotHeld,
        Self::ShelfPremiseUnchecked,
        Self::ShelfInLaterEpoch,
        Self::LazyNumberAtEnd,
        Self::LazyNumberNotHeld,
        Self::RedoLost,
        Self::RedoInOldest,
        Self::RedoLogged,
        Self::RedoNotLogged,
        Self::RedoVersionNotKept,
        Self::DtaOverwriterIgnored,
        Self::DtaReadersIgnored,
        Self::DtaInsertNotAfterAll,
        Self::DtaReadVersionIgnored,
        Self::DtaGapsNotValidated,
        Self::HekatonReadsNewest,
        Self::HekatonWriteNotLocked,
        Self::HekatonReadsNotValidated,
        Self::HekatonGapsNotValidated,
        Self::HekatonVersionNotKept,
        Self::HekatonNewerOverwritten,
        Self::HekatonPreparingIgnored,
        Self::HekatonDependencyIgnored,
        Self::HekatonEndBeforePreparing,
        Self::HekatonCutTooMuch,
        Self::Ic3RankNotAwaited,
        Self::Ic3CommitOrderIgnored,
        Self::Ic3AbortNotFollowed,
        Self::Ic3PieceNotValidated,
        Self::Ic3ReadersNotAwaited,
        Self::Ic3ImageWithoutLastWriter,
        Self::Ic3ScanLeavesNoBit,
        Self::Ic3InsertIgnoresScanners,
        Self::Ic3WithdrawalKeepsVersion,
        Self::Ic3ClosureIgnoresAccessors,
        Self::Ic3VerdictBeforeWait,
        Self::Ic3LockTakenEarly,
        Self::Ic3PassedNotChecked,
        Self::Ic3DeletionNotFollowed,
        Self::Ic3DeletedFilledUnseen,
        Self::DrpPassedBeforeSwap,
        Self::DrpTurnNotAwaited,
        Self::DrpTailStored,
        Self::DrpReadsNotCertified,
        Self::DrpTailNotCertified,
        Self::DrpGapsNotCertified,
        Self::DrpPassedAll,
        Self::DrpGenerationIgnored,
        Self::DrpDecisionsNotAwaited,
        Self::DrpHeldNotAwaited,
        Self::DrpEpochEarly,
        Self::DrpTimeFalls,
        Self::DrpNullDoneEarly,
        Self::DrpVerdictIgnored,
        Self::DrpSealedOverTail,
        Self::DrpSealNotAwaited,
        Self::DrpOwnRecordFilledUnseen,
        Self::DrpReadsNotOpaque,
        Self::DrpDecidedBeforeMade,
        Self::DrpTakenFromOthers,
        Self::DrpPresentTaken,
        Self::DrpAppliedNotValidated,
        Self::SequencedPointsIgnored,
        Self::SequencedScansIgnored,
        Self::SequencedLaterNotAwaited,
        Self::SequencedNowNotAwaited,
        Self::GraphCallsNotAwaited,
        Self::GraphQuietThoughWritten,
        Self::GatheredOpenIgnored,
        Self::GatheredSharersForgotten,
        Self::GatheredBeforeDropped,
        Self::GatheredReleasedEarly,
        Self::GatheredEndedEarly,
        Self::GatheredGranuleTooNarrow,
        Self::GatheredOutOfOrder,
        Self::GatheredNextEarly,
        Self::GatheredNobodyCalled,
        Self::PieceNotAwaited,
        Self::PieceLetGoEarly,
        Self::PieceInOwnEpoch,
        Self::PieceKeptAtEnd,
        Self::PieceUnforeseen,
        Self::DecidesInPhase,
        Self::TreeChildNotRechecked,
        Self::TicTocSafeAtEqual,
        Self::TicTocFailedRaiseTrusted,
        Self::SiloEpochBeforeLocks,
        Self::LogAckedBeforeSync,
        Self::LogFailureForgotten,
        Self::LogEpochClosedEarly,
        Self::CommandNeverAlone,
        Self::CommandWithinForgotten,
        Self::CommandReadsForgotten,
        Self::CommandUnforeseen,
        Self::CommandInCheckpoint,
        Self::CommandsOutOfOrder,
        Self::LogDeleteNotLogged,
        Self::LogImageBeforeInstall,
        Self::LogManifestNameNotSynced,
        Self::LogResumedInTheOldFiles,
        Self::LogResumedWithoutTheTaken,
        Self::RecoveryOrderByFile,
        Self::RecoveryTornRoundReplayed,
        Self::RecoveryOpenEpochsReplayed,
        Self::RecoveryGenerationNotEnded,
        Self::RecoveryEpochTooLow,
        Self::RecoveryTailNotRewritten,
        Self::RecoveryManifestTrusted,
        Self::BackupManifestFirst,
        Self::CopyLinkNotChecked,
        Self::CopyManifestFirst,
        Self::CopyRoundSkipped,
        Self::RestoreAnEpochTooLate,
        Self::CheckpointLogDroppedEarly,
        Self::CheckpointNotClosed,
        Self::CheckpointPartNotSynced,
        Self::IndexBuiltFromCheckpointOnly,
        Self::IndexBuiltOfPartOfTheRows,
        Self::IndexUnbuiltTrusted,
        Self::IndexRemovedKept,
        Self::MigrationOldFilesRemovedFirst,
        Self::SchemaNotValidated,
    ];

    /// Whether its window is so narrow, or the order that shows it so particular, that only a search in simulation
    /// must find it: threads on real cores, the more on busy ones, may run for longer than a test before they
    /// meet in it. So are those of which the suite only stands still.
    pub const fn is_rare(self) -> bool {
        matches!(
            self,
            Self::TreeChildNotRechecked
                | Self::TicTocSafeAtEqual
                | Self::TicTocFailedRaiseTrusted
                | Self::SiloEpochBeforeLocks
                | Self::DetectNothingSought
                | Self::DetectReadersIgnored
                | Self::DetectFirstLockUnpublished
                | Self::DetectVictimGoesOn
                | Self::OrderIgnored
                | Self::OrderOfLastLockOnly
                | Self::AllocationAtBegin
                | Self::AllocationBelowFloor
                | Self::HtmLockIgnored
                | Self::HtmLockOverLock
                | Self::HtmPresenceUnchecked
                | Self::HtmValidatedEarly
                | Self::HtmNotLocked
                | Self::HtmPartitionUnseen
                | Self::HtmPartitionLate
                | Self::PartsBesideClosure
                | Self::HekatonPreparingIgnored
                | Self::HekatonDependencyIgnored
                | Self::HekatonEndBeforePreparing
                | Self::Ic3RankNotAwaited
                | Self::Ic3DeletionNotFollowed
                | Self::Ic3DeletedFilledUnseen
                | Self::Ic3CommitOrderIgnored
                | Self::Ic3ReadersNotAwaited
                | Self::Ic3ScanLeavesNoBit
                | Self::Ic3InsertIgnoresScanners
                | Self::Ic3WithdrawalKeepsVersion
                | Self::Ic3ClosureIgnoresAccessors
                | Self::DrpPassedBeforeSwap
                | Self::DrpTurnNotAwaited
                | Self::DrpTailStored
                | Self::DrpTailNotCertified
                | Self::DrpPassedAll
                | Self::DrpGenerationIgnored
                | Self::DrpDecisionsNotAwaited
                | Self::DrpHeldNotAwaited
                | Self::DrpEpochEarly
                | Self::DrpTimeFalls
                | Self::DrpNullDoneEarly
                | Self::DrpSealedOverTail
                | Self::DrpSealNotAwaited
                | Self::DrpOwnRecordFilledUnseen
                | Self::PieceKeptAtEnd
        )
    }
}

/// True where `mutant` is switched on.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn planted(_: Mutant) -> bool {
    false
}

#[cfg(feature = "mutants")]
mod switch {
    use super::Mutant;
    // A process-wide test switch, not engine state: the standard library's atomic.
    use std::sync::atomic::{AtomicU32, Ordering};

    static PLANTED: AtomicU32 = AtomicU32::new(0);

    /// Switches one bug on, or all off.
    pub fn plant(mutant: Option<Mutant>) {
        PLANTED.store(mutant.map_or(0, |mutant| mutant as u32), Ordering::SeqCst);
    }

    /// True where `mutant` is switched on.
    pub fn planted(mutant: Mutant) -> bool {
        PLANTED.load(Ordering::Relaxed) == mutant as u32
    }
}

#[cfg(feature = "mutants")]
pub use switch::plant;
#[cfg(feature = "mutants")]
pub use switch::planted;
