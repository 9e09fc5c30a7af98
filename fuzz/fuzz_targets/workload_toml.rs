//! libFuzzer's way into the target `workload_toml` of `webstone-fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| webstone_fuzz::run("workload_toml", data));
