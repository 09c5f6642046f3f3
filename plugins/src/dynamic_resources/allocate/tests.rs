//! Tests of the allocator as a whole, on worlds of one node.

mod apart;
mod choice;
mod exhaustive;
mod hard;
mod limits;
mod random;
mod rules;
mod sets;
mod sharing;
mod written;
