//! Type-stable memory for both indexes: regions that never move, and a pool of nodes over them.

use crate::sync::{AtomicPtr, Mutex, Ordering, fence, lock, name, shared_memory, shared_memory_ends};
use crossbeam_utils::CachePadded;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

/// Regions of more than half this size are mapped by themselves, aligned to it, in huge pages
/// where the system grants them, and zero until touched.
pub(super) const HUGE: usize = 2 << 20;

/// Memory for an array, not initialised by Rust's rules unless `zeroed`.
pub(super) struct Region {
    base: NonNull<u8>,
    layout: Layout,
    /// The mapping that holds `base`, if the region has one of its own.
    mapping: Option<Mapping>,
}

/// Start and length.
type Mapping = (NonNull<u8>, usize);

// SAFETY: a region owns its memory and gives no access by itself.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Memory for `length` values of `T`.
    pub(super) fn new<T>(length: usize) -> Self {
        Self::of(Layout::new::<T>(), length)
    }

    /// The same for values of a type with that layout.
    fn of(value: Layout, length: usize) -> Self {
        let bytes = value.size().checked_mul(length).expect("an index smaller than the address space");
        let layout =
            Layout::from_size_align(bytes, value.align()).expect("an index smaller than the address space");
        assert_ne!(layout.size(), 0);
        // Whole huge pages, also where an odd size of a value leaves the last one not quite full.
        if layout.size() > HUGE / 2
            && let Some((base, mapping)) = map(layout.size().next_multiple_of(HUGE))
        {
            shared_memory(base.as_ptr(), layout.size());
            return Self { base, layout, mapping: Some(mapping) };
        }
        // SAFETY: the layout has a size, asserted above.
        let base = unsafe { alloc(layout) };
        let Some(base) = NonNull::new(base) else { handle_alloc_error(layout) };
        shared_memory(base.as_ptr(), layout.size());
        Self { base, layout, mapping: None }
    }

    /// Whether every byte is zero until it is written.
    pub(super) fn zeroed(&self) -> bool {
        self.mapping.is_some()
    }

    pub(super) fn base<T>(&self) -> NonNull<T> {
        self.base.cast()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        shared_memory_ends(self.base.as_ptr());
        if let Some((start, length)) = self.mapping {
            unmap(start, length);
        } else {
            // SAFETY: `base` was allocated in `new` with this layout.
            unsafe { dealloc(self.base.as_ptr(), self.layout) }
        }
    }
}

/// A mapping that holds `size` zero bytes at an alignment of `HUGE`, at the first pointer.
#[cfg(all(target_os = "linux", not(any(miri, feature = "loom", feature = "shuttle"))))]
fn map(size: usize) -> Option<(NonNull<u8>, Mapping)> {
    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
    let length = size.checked_add(HUGE)?;
    // SAFETY: a private anonymous mapping at an address of the system's choice touches nothing
    // that exists.
    let start = unsafe {
        mmap_anonymous(
            std::ptr::null_mut(),
            length,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | MapFlags::NORESERVE,
        )
    };
    let start = NonNull::new(start.ok()?.cast::<u8>())?;
    let skip = start.as_ptr().align_offset(HUGE);
    assert!(skip < HUGE);
    // SAFETY: `skip + size` is within the `HUGE + size` bytes of the mapping.
    let base = unsafe { start.add(skip) };
    // SAFETY: the range lies in the new mapping; this advice changes no content. Where it is
    // refused, small pages serve.
    let _ = unsafe { madvise(base.as_ptr().cast(), size, Advice::LinuxHugepage) };
    Some((base, (start, length)))
}

#[cfg(all(target_os = "linux", not(any(miri, feature = "loom", feature = "shuttle"))))]
fn unmap(start: NonNull<u8>, length: usize) {
    // SAFETY: `map` made exactly this mapping, and its region, the only owner, is being dropped.
    let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), length) };
}

#[cfg(not(all(target_os = "linux", not(any(miri, feature = "loom", feature = "shuttle")))))]
fn map(_: usize) -> Option<(NonNull<u8>, Mapping)> {
    None
}

#[cfg(not(all(target_os = "linux", not(any(miri, feature = "loom", feature = "shuttle")))))]
fn unmap(_: NonNull<u8>, _: usize) {
    unreachable!("nothing is mapped here");
}

/// Nodes that are handed out and taken back, initialised once and freed with the pool: a face of [`Nodes`].
pub(super) struct Pool<T> {
    make: fn() -> T,
    nodes: Nodes,
}

// SAFETY: the pool owns its nodes, and its mutex guards the lists.
unsafe impl<T: Send> Send for Pool<T> {}
// SAFETY: as above; nodes handed out are shared by reference.
unsafe impl<T: Send + Sync> Sync for Pool<T> {}

impl<T> Pool<T> {
    /// An empty pool of nodes that begin as `make` says.
    pub(super) fn new(make: fn() -> T) -> Self {
        Self { make, nodes: Nodes::new(Layout::new::<T>()) }
    }

    /// This pool, with nodes to be taken in hardware regions, which cannot lock it.
    pub(super) fn with_spares(mut self) -> Self {
        self.nodes.have_spares();
        self
    }

    /// A node without other owners: a new one, or one given back, as it was then. `near` is the number of the worker, or where that
    /// is not known mostly differs for other keys.
    pub(super) fn take(&self, near: u64) -> NonNull<T> {
        self.nodes.take(near, &|place| self.make_at(place)).cast()
    }

    /// Behind a region that may have taken nodes: the next one finds as many.
    pub(super) fn stock_up(&self, near: u64) {
        self.nodes.stock_up(near, &|place| self.make_at(place));
    }

    fn make_at(&self, place: NonNull<u8>) {
        // SAFETY: `Nodes` asks for this once for each place that it has for a node: memory of the layout of a `T`, which
        // was handed to nobody.
        unsafe { place.cast::<T>().write((self.make)()) }
    }

    /// Takes back a node of this pool. Late readers may still look at it.
    pub(super) fn give(&self, node: NonNull<T>) {
        self.nodes.give(node.cast());
    }

    /// Nodes handed out and not given back.
    pub(super) fn taken(&self) -> usize {
        self.nodes.taken()
    }
}

impl<T> Drop for Pool<T> {
    fn drop(&mut self) {
        self.nodes.each(|node| {
            // SAFETY: it was made by `make_at`, once, and is dropped only here; the pool's owner is being dropped, so no
            // reference to it is left.
            unsafe { node.cast::<T>().drop_in_place() }
        });
    }
}

/// The nodes of a pool as places in memory, without their type: compiled once for all widths of keys.
struct Nodes {
    /// Of one.
    layout: Layout,
    shelf: Mutex<Shelf>,
    /// Nodes for those who cannot take a lock: none, or as many groups as there are.
    spares: Box<[Spares]>,
}

/// Makes a node at a place where none was.
type Make<'a> = &'a dyn Fn(NonNull<u8>);

/// Some nodes in a cache line, or none where there is null. Put there under the shelf's lock (Release), taken without it.
type Spares = CachePadded<[AtomicPtr<u8>; SPARES]>;

/// Nodes of a group, and groups: of so many workers each looks in another of these, so that none disturbs another's region.
const SPARES: usize = 7;
const GROUPS: usize = 64;

struct Shelf {
    /// The last is being handed out for the first time; the ones before are used up.
    chunks: Vec<Chunk>,
    free: Vec<NonNull<u8>>,
    taken: usize,
}

struct Chunk {
    region: Region,
    length: usize,
    /// The first `used` nodes are made.
    used: usize,
}

/// Nodes of the first chunk; each next one doubles, up to `HUGE` bytes.
const FIRST_CHUNK: usize = 4;

impl Nodes {
    fn new(layout: Layout) -> Self {
        let shelf = Mutex::new(Shelf { chunks: Vec::new(), free: Vec::new(), taken: 0 });
        Self { layout, shelf, spares: Box::default() }
    }

    fn have_spares(&mut self) {
        let none = || AtomicPtr::new(std::ptr::null_mut());
        let group = |_| CachePadded::new(std::array::from_fn(|_| none()));
        self.spares = (0..GROUPS).map(group).collect();
    }

    fn take(&self, near: u64, make: Make<'_>) -> NonNull<u8> {
        let spares = self.spares.get(near as usize % GROUPS);
        if let Some(node) = spares.and_then(|spares| spares.iter().find_map(take_spare)) {
            // As below.
            fence(Ordering::Release);
            return node;
        }
        let mut shelf = lock(&self.shelf);
        let node = self.take_from(&mut shelf, make);
        self.fill(&mut shelf, near, make);
        drop(shelf);
        // Pairs with the acquire fence in `Gap::stands`: a late reader of the node's former life, which reads
        // a word of the new one, also sees what ended the former (which came before `give`, and so before
        // this).
        fence(Ordering::Release);
        node
    }

    fn stock_up(&self, near: u64, make: Make<'_>) {
        self.fill(&mut lock(&self.shelf), near, make);
    }

    fn fill(&self, shelf: &mut Shelf, near: u64, make: Make<'_>) {
        for spare in self.spares.get(near as usize % GROUPS).iter().flat_map(|spares| spares.iter()) {
            // Relaxed: only filled under the lock.
            if spare.load(Ordering::Relaxed).is_null() {
                spare.store(self.take_from(shelf, make).as_ptr(), Ordering::Release);
            }
        }
    }

    fn take_from(&self, shelf: &mut Shelf, make: Make<'_>) -> NonNull<u8> {
        shelf.taken += 1;
        if let Some(node) = shelf.free.pop() {
            return node;
        }
        let next = shelf.chunks.last().map_or(FIRST_CHUNK, |chunk| chunk.length * 2);
        if shelf.chunks.last().is_none_or(|chunk| chunk.used == chunk.length) {
            let length = next.min(HUGE / self.layout.size());
            shelf.chunks.push(Chunk { region: Region::of(self.layout, length), length, used: 0 });
        }
        let chunk = shelf.chunks.last_mut().expect("pushed above");
        let node = self.place(chunk, chunk.used);
        make(node);
        name(node.as_ptr().cast(), self.layout.size(), || format!("index node {}", shelf.taken));
        chunk.used += 1;
        node
    }

    /// Where a node of a chunk is.
    fn place(&self, chunk: &Chunk, at: usize) -> NonNull<u8> {
        assert!(at < chunk.length);
        // SAFETY: its region was laid out for `length` values of this layout, whose size is their distance.
        unsafe { chunk.region.base::<u8>().byte_add(at * self.layout.size()) }
    }

    fn give(&self, node: NonNull<u8>) {
        let mut shelf = lock(&self.shelf);
        shelf.taken -= 1;
        shelf.free.push(node);
    }

    fn taken(&self) -> usize {
        let spares = self.spares.iter().flat_map(|spares| spares.iter());
        let spares = spares.filter(|spare| !spare.load(Ordering::Relaxed).is_null()).count();
        lock(&self.shelf).taken.saturating_sub(spares)
    }

    /// Every node that was made.
    fn each(&self, told: impl Fn(NonNull<u8>)) {
        for chunk in &lock(&self.shelf).chunks {
            (0..chunk.used).for_each(|at| told(self.place(chunk, at)));
        }
    }
}

/// A number for a key, for [`Pool::take`].
pub(super) fn mixed(key: &[u64]) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    key.iter().fold(0, |sum: u64, word| (sum ^ word).wrapping_mul(ODD)) >> 32
}

/// Takes the node that is there, if there is one.
fn take_spare(spare: &AtomicPtr<u8>) -> Option<NonNull<u8>> {
    let node = NonNull::new(spare.load(Ordering::Relaxed))?;
    let none = std::ptr::null_mut();
    // AcqRel: what was done to the node before it was put there, and as in `Pool::take` what ended its former life. That it was
    // taken and put there again meanwhile changes nothing: it is free.
    spare.compare_exchange(node.as_ptr(), none, Ordering::AcqRel, Ordering::Relaxed).is_ok().then_some(node)
}
