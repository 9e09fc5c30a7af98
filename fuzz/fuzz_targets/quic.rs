//! libFuzzer's way into the target `quic` of `webstone-fuzz`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| webstone_fuzz::run("quic", data));
