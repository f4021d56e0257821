//! The model of the caches: what each access costs, and how lines are numbered.

use heddledb_engine_simulated::sync::simulation::{Cache, Costs, Counts, Directory, Kind, Topology};

struct Bench {
    directory: Directory,
    caches: Vec<Cache>,
    clocks: Vec<u64>,
    counts: Vec<Counts>,
    sockets: Vec<u8>,
}

const COSTS: fn() -> Costs = Costs::default;

impl Bench {
    fn new(cores: usize, topology: Topology) -> Self {
        let costs = COSTS();
        Self {
            directory: Directory::new(&costs, &topology),
            caches: (0..cores).map(|_| Cache::new(64)).collect(),
            clocks: vec![0; cores],
            counts: vec![Counts::default(); cores],
            sockets: (0..cores).map(|core| topology.socket(core) as u8).collect(),
        }
    }

    /// What an access costs core `me`.
    fn cost(&mut self, me: usize, address: usize, kind: Kind) -> u64 {
        let before = self.clocks[me];
        let outcome = self.directory.access(
            &COSTS(),
            &self.sockets,
            &mut self.caches,
            me,
            before,
            address,
            kind,
            &mut self.counts[me],
        );
        self.clocks[me] = outcome.done;
        outcome.done - before
    }
}

#[test]
fn every_state_has_its_price() {
    let costs = COSTS();
    let mut bench = Bench::new(4, Topology { sockets: 2, cores_per_socket: 2 });
    bench.directory.register(0x1000, 4096);
    assert_eq!(bench.cost(0, 0x1000, Kind::Load), costs.memory, "nobody has it");
    assert_eq!(bench.cost(0, 0x1008, Kind::Load), costs.same, "the same line");
    assert_eq!(bench.cost(0, 0x1000, Kind::Store), costs.same, "exclusive: a silent write");
    assert_eq!(bench.cost(0, 0x1040, Kind::Load), costs.memory, "another line");
    assert_eq!(bench.cost(0, 0x1000, Kind::Load), costs.hit);
    bench.clocks = vec![1_000; 4];
    assert_eq!(bench.cost(1, 0x1000, Kind::Load), costs.transfer, "dirty at a neighbour");
    bench.clocks = vec![2_000; 4];
    assert_eq!(bench.cost(2, 0x1000, Kind::Load), costs.fetch_far, "clean in the other socket");
    bench.clocks = vec![3_000; 4];
    assert_eq!(bench.cost(3, 0x1000, Kind::Load), costs.refetch, "clean in this socket, written by another");
    assert_eq!(bench.cost(1, 0x1040, Kind::Load), costs.fetch, "clean in this socket, written by nobody");
    bench.clocks = vec![4_000; 4];
    assert_eq!(bench.cost(0, 0x1000, Kind::Update), costs.upgrade_far + costs.rmw, "copies everywhere");
    bench.clocks = vec![5_000; 4];
    assert_eq!(bench.cost(3, 0x1000, Kind::Store), costs.transfer_far, "dirty in the other socket");
    bench.clocks = vec![6_000; 4];
    assert_eq!(bench.cost(3, 0x1000, Kind::Store), costs.same, "all its own");
    assert_eq!(bench.cost(0, 0x1040, Kind::Store), costs.upgrade, "another one has a copy of that");
}

#[test]
fn a_busy_line_makes_wait() {
    let costs = COSTS();
    let mut bench = Bench::new(3, Topology::default());
    bench.directory.register(0x1000, 64);
    bench.cost(0, 0x1000, Kind::Update);
    bench.clocks = vec![1_000; 3];
    assert_eq!(bench.cost(1, 0x1000, Kind::Update), costs.transfer + costs.rmw);
    assert_eq!(bench.cost(2, 0x1000, Kind::Update), 2 * (costs.transfer + costs.rmw), "after core 1");
    assert_eq!(bench.counts[2].queueing_cycles, costs.transfer + costs.rmw);
}

#[test]
fn a_small_cache_forgets() {
    let mut bench = Bench::new(1, Topology::default());
    bench.directory.register(0x10000, 1 << 20);
    for line in 0..1024 {
        bench.cost(0, 0x10000 + line * 64, Kind::Load);
    }
    assert_eq!(bench.counts[0].memory, 1024);
    for line in 0..1024 {
        bench.cost(0, 0x10000 + line * 64, Kind::Load);
    }
    assert!(bench.counts[0].fetches > 900, "{:?}", bench.counts[0]);
}

#[test]
fn numbers_do_not_depend_on_addresses() {
    let numbers = |base: usize| {
        let mut bench = Bench::new(1, Topology::default());
        bench.directory.register(base, 4096);
        let alone = [base + (1 << 30), base + (1 << 29)];
        [base, base + 64, alone[0], alone[1], base + 4095].map(|a| bench.directory.number(a))
    };
    assert_eq!(numbers(0x7f00_0000_1000), numbers(0x5500_0040_0000));
}

#[test]
fn a_region_that_comes_anew_has_new_lines() {
    let mut bench = Bench::new(1, Topology::default());
    bench.directory.register(0x1000, 4096);
    let before = bench.directory.number(0x1040);
    bench.directory.register(0x1000, 4096);
    assert_ne!(bench.directory.number(0x1040), before);
}
