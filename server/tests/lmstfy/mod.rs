//! The contract of lmstfy, case by case.

mod admin;
mod better;
mod consume;
mod conventions;
mod cost;
mod dead;
mod jobs;
mod limits;
mod many;
mod metrics;
mod publish;
mod respawn;
mod respawn_notes;
mod respawn_race;
