//! What every protocol costs on 64 virtual cores is what the file says, to the last digit.
//!
//! This is also the proof that a simulation depends on nothing but its seed: the file was written by another
//! process, on another machine, with memory elsewhere. Where memory is given back of which the model still knows words, it does
//! depend on the allocator, if seldom so that it shows; so the allocator looks.

#![allow(unsafe_code)]

use heddledb_simulator::budget::{differences, measure};
use heddledb_simulator::simulation::knows;
use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::sync::Mutex;

struct Looking;

/// Where memory was given back first of which the model knew words.
static KNOWN: Mutex<Option<String>> = Mutex::new(None);

thread_local! {
    static LOOKS: Cell<bool> = const { Cell::new(false) };
}

fn look(start: *const u8, bytes: usize) {
    // What the look itself allocates is not looked at.
    if !LOOKS.replace(true) {
        if knows(start, bytes) {
            let mut known = KNOWN.lock().expect("nobody panics with it");
            known.get_or_insert_with(|| format!("{bytes} bytes\n{}", Backtrace::force_capture()));
        }
        LOOKS.set(false);
    }
}

// SAFETY: every method passes its arguments on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Looking {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        look(pointer, layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        look(pointer, layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Looking = Looking;

#[test]
fn costs_are_as_budgeted() {
    let measured = measure(|_| {}).unwrap_or_else(|error| panic!("{error}"));
    let known = KNOWN.lock().expect("nobody panics with it").take();
    assert!(known.is_none(), "the model knew words in what was given back: {}", known.unwrap_or_default());
    let differences = differences(include_str!("../budget.txt"), &measured);
    assert!(
        differences.is_empty(),
        "a change of cost is to be explained, and then written with \
         `cargo run -p heddledb-simulator --bin budget -- --write`:\n{}",
        differences.join("\n")
    );
}

#[test]
fn differences_are_told() {
    let kept = "# a comment\na x: 1; 2\nb x: 3; 4\nc x: 5; 6\n";
    assert!(differences(kept, kept).is_empty());
    let found = differences(kept, "a x: 1; 2\nb x: 3; 5\nd x: 7; 8\n");
    assert_eq!(found, ["was b x: 3; 4\nis  b x: 3; 5", "new d x: 7; 8", "gone c x: 5; 6"]);
}
