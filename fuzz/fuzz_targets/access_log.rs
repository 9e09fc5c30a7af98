//! libFuzzer's way into the target `access_log` of `webstone-fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| webstone_fuzz::run("access_log", data));
