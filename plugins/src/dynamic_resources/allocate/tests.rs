//! Tests of the allocator as a whole, on worlds of one node.

mod choice;
mod hard;
mod limits;
mod rules;
mod sharing;
mod written;
