//! libFuzzer's way into the target `h3` of `webstone-fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| webstone_fuzz::run("h3", data));
