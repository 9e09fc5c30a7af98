//! libFuzzer's way into the target `h2` of `webstone-fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| webstone_fuzz::run("h2", data));
