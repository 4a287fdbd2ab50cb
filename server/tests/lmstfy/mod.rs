//! The contract of lmstfy, case by case.

mod admin;
mod better;
mod consume;
mod conventions;
mod dead;
mod jobs;
mod limits;
mod metrics;
mod publish;
