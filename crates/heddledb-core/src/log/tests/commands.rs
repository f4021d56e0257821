//! Commands: what was written comes back, and no other bytes are taken for it.

use super::*;

const USES: [CellUse; 4] = [CellUse::Reads, CellUse::Scans, CellUse::Within, CellUse::Writes];
const CELL: u32 = 3939556212;
const DIGEST: u64 = 10545010076919405743;

#[derive(Clone, Debug)]
struct AnyCommand {
    time: u64,
    procedure: u16,
    arguments: Vec<u8>,
    cells: Vec<Cell>,
    alone: bool,
    digest: u64,
}

fn any_command() -> impl Strategy<Value = AnyCommand> {
    let cells = proptest::collection::vec(any::<u32>().prop_map(Cell), 0..9);
    let arguments = proptest::collection::vec(any::<u8>(), 0..30);
    (0..1u64 << 62, any::<u16>(), arguments, cells, any::<bool>(), any::<u64>()).prop_map(
        |(time, procedure, arguments, mut cells, alone, digest)| {
            sort_cells(&mut cells);
            AnyCommand { time, procedure, arguments, cells, alone, digest }
        },
    )
}

fn write(out: &mut Vec<u64>, command: &AnyCommand) {
    let writing = WritingCommand::begin(out, command.time, command.procedure, &command.arguments);
    writing.end(out, &command.cells, command.alone, command.digest);
}

proptest! {
    #[test]
    fn commands_come_back(commands in proptest::collection::vec(any_command(), 0..6)) {
        let mut words = Vec::new();
        commands.iter().for_each(|command| write(&mut words, command));
        // Beside what they are not.
        Writing::begin(&mut words, 7).end(&mut words);
        let read = Entries::new(&words).collect::<Result<Vec<_>, _>>().unwrap();
        prop_assert_eq!(read.len(), commands.len() + 1);
        prop_assert!(read[commands.len()].command().is_none());
        for (entry, due) in read.iter().zip(&commands) {
            let found = entry.command().unwrap();
            let cells: Vec<Cell> = found.cells().collect();
            prop_assert_eq!((entry.time(), entry.len()), (stamp::time(due.time), 0));
            prop_assert_eq!((found.procedure, entry.is_alone(), found.digest), (due.procedure, due.alone, due.digest));
            prop_assert_eq!((found.arguments(), cells), (due.arguments.clone(), due.cells.clone()));
        }
    }

    #[test]
    fn a_command_that_is_cut_or_changed_is_none(command in any_command(), cut in 1..4usize, bit in 0..32u32) {
        let mut words = Vec::new();
        write(&mut words, &command);
        prop_assert!(Entries::new(&words[..words.len().saturating_sub(cut)]).any(|entry| entry.is_err()) || words.len() == cut);
        // Another length, and another number of cells.
        for at in [bit, 32 + bit % 28] {
            let mut changed = words.clone();
            changed[1] ^= 1 << at;
            let mut read = Entries::new(&changed);
            let refused = read.next().is_none_or(|entry| entry.is_err()) || read.next().is_some_and(|entry| entry.is_err());
            // An odd number of cells may be one more, if the last is zero.
            let all = Entries::new(&changed).next().and_then(Result::ok);
            let is_rounded = all.is_some_and(|entry| entry.command().is_some_and(|found| found.cells().count().div_ceil(2) == command.cells.len().div_ceil(2)));
            prop_assert!(refused || is_rounded);
        }
    }

    #[test]
    fn any_words_are_read_without_a_panic(words in proptest::collection::vec(any::<u64>(), 0..12), length in 0..12u64) {
        let mut words = words;
        if let [time, size, ..] = &mut words[..] {
            *time &= stamp::time(u64::MAX);
            *size = *size & !0xFFFF_FFFF | 1 << 63 | length;
        }
        for entry in Entries::new(&words).flatten() {
            if let Some(command) = entry.command() {
                prop_assert_eq!(command.arguments().len(), command.argument_bytes());
                prop_assert!(command.cells().count() <= 2 * words.len());
            }
        }
    }
}

#[test]
fn cells_are_apart() {
    let mut seen = std::collections::BTreeSet::new();
    for relation in 0..3 {
        for key in [[0, 0], [0, 1], [1, 0], [1, 1 << 40], [u64::MAX, 0]] {
            for group in 0..3 {
                assert!(seen.insert(Cell::of_row(relation, &key, group, CellUse::Reads)));
            }
        }
        for prefix in [&[][..], &[0], &[1], &[0, 0], &[0, 1]] {
            assert!(seen.insert(Cell::below(relation, prefix, CellUse::Reads)));
        }
    }
    for used in USES {
        let cell = Cell::of_row(9, &[4], 0, used);
        assert_eq!((cell.used(), cell.hash()), (used, Cell::of_row(9, &[4], 0, CellUse::Reads).hash()));
    }
    // They are in the files.
    assert_eq!(Cell::of_row(3, &[7, 9], 1, CellUse::Writes), Cell(CELL));
    assert_eq!(digest(&[1, 2, 3]), DIGEST);
}
