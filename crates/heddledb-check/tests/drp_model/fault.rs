//! The faulty variants.

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The pass is published before the tail is swapped.
    PassBeforeSwap,
    /// At its own last item a transaction says that it has passed everything.
    PassInfinite,
    /// Of several items of one rank, the pass is published at the first.
    TieAtFirst,
    /// It is published when all own items of the rank are acquired, though a predecessor that was met there has not
    /// acquired all of its.
    TieAlone,
    /// A slot's newer transaction is taken for the one that is waited for.
    GenerationIgnored,
    /// At the end the tail is cleared although another has queued behind.
    TailStored,
    /// Reads are certified before the predecessors have decided.
    CertifiedEarly,
    /// A read is certified by its stamp alone.
    TailNotCertified,
    /// The stamp is looked at before the tail.
    StampBeforeTail,
    /// The epoch is read before the predecessors have decided.
    EpochEarly,
    /// The time is not above a predecessor's.
    TimeBelowPredecessor,
    /// An item is installed before the one before it.
    InstalledOutOfOrder,
    /// An item without effect ends before the one before it.
    NullEndsEarly,
    /// A value is installed before the verdict is known.
    InstalledBeforeVerdict,
    /// Late items are taken when the transaction has decided, so that who certifies between does not see them.
    LateAfterDecision,
    /// A late item is taken from whoever queues for it, and that place is forgotten.
    LateFromOthers,
    /// Late items are taken before the predecessors have decided.
    LateBeforeDecisions,
    /// One who is found at a late item is a predecessor, and is waited for.
    LateWaits,
    /// What was only looked at is done when it is evaluated, and not when the transaction has decided. So one behind it that is
    /// abandoned ends too early, and a writer behind that one waits for nobody.
    LookDoneAtEvaluation,
    /// Whoever is found before at a held item is neither waited for nor a predecessor.
    HeldNotAwaited,
}
