//! Time of what each request costs: choosing a page, recording a value. `cargo bench -p webstone-workload`.
//!
//! Their instructions are counted by `cargo xtask instructions`.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use indexmap::IndexMap;
use webstone_measure::metrics::Histogram;
use webstone_workload::template::{RenderContext, Template};
use webstone_workload::{PageSequence, Sampler};

/// Weights of the `standard` workload.
const STANDARD: [u64; 5] = [350, 500, 140, 9, 1];

fn sampler(criterion: &mut Criterion) {
    let many: Vec<u64> = (1..=100_000).map(|rank| 1_000_000 / rank).collect();
    for (name, weights) in
        [("sampler/1 page", &[1][..]), ("sampler/5 pages", &STANDARD), ("sampler/100,000 pages", &many)]
    {
        let sampler = Sampler::new(weights.iter().copied()).expect("small weights");
        let mut sequence = PageSequence::new(1, 1);
        criterion.bench_function(name, |bencher| bencher.iter(|| sequence.next_page(black_box(&sampler))));
    }
}

fn histogram(criterion: &mut Criterion) {
    // Latencies as usual: most within three octaves, a few much longer.
    let mut random = PageSequence::new(1, 2);
    let values: Vec<u64> = (0..4096)
        .map(
            |number| {
                if number % 100 == 0 { random.between(1, 1 << 30) } else { random.between(50_000, 400_000) }
            },
        )
        .collect();
    let mut histogram = Histogram::new();
    let mut at = 0;
    criterion.bench_function("histogram/record", |bencher| {
        bencher.iter(|| {
            at = (at + 1) % values.len();
            histogram.record(black_box(values[at]));
        });
    });
    criterion.bench_function("histogram/percentile", |bencher| {
        bencher.iter(|| black_box(&histogram).value_at_percentile(99.0));
    });
    let other = histogram.clone();
    criterion.bench_function("histogram/merge", |bencher| {
        bencher.iter(|| histogram.merge(black_box(&other)));
    });
}

fn template(criterion: &mut Criterion) {
    let template = Template::parse("GET /item/{{seq}}?n={{rand 1000 9999}} HTTP/1.1\r\nHost: h\r\n\r\n")
        .expect("a template");
    let (mut random, feeds) = (PageSequence::new(1, 3), IndexMap::new());
    let mut out = Vec::with_capacity(256);
    let mut sequence = 0;
    criterion.bench_function("request/template", |bencher| {
        bencher.iter(|| {
            out.clear();
            sequence += 1;
            let mut context = RenderContext { random: &mut random, sequence, feeds: &feeds, row: 0 };
            template.render(&mut out, &mut context);
            black_box(out.len())
        });
    });
}

criterion_group!(benches, sampler, histogram, template);
criterion_main!(benches);
