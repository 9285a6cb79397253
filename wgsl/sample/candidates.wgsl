// Sampler, second kernel (idle when greedy): each segment keeps the tokens that may still pass the
// filters. The bound is safe, not exact; the third kernel finds the exact thresholds among these few.
//   top-k: the k-th largest of the segments' maxima has k tokens at or above it.
//   top-p of the whole vocabulary: what lies ln(V / (1 - p)) below the largest adds up to at most
//   1 - p of its weight, so the sum of the rest reaches p.
//   min-p: exact, but only where top-p does not have to count what it drops.
// Bindings: logits [1, V], history u32 [V (+ window)], params u32 [16], maxima (see maxima.wgsl),
// candidates (written) vec2<u32>: [SEGMENTS] of (how many, 0), then [SEGMENTS][LENGTH] of (bits, id).

{% import "sample/common.wgsl" as common with context %}
{% include "sample/common.wgsl" %}
{{ common.penalised() }}
{{ common.tree("largest", "f32", "LOWEST", "max(a, b)") }}

var<workgroup> segment_best: array<f32, {{ segments }}>;
var<workgroup> kth: f32;
var<workgroup> kept: atomic<u32>;

@compute @workgroup_size({{ size }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
) {
    if (setting(TEMPERATURE) <= 0.0) {
        return;
    }
    var best = LOWEST;
    for (var i = index; i < SEGMENTS; i += SIZE) {
        segment_best[i] = bitcast<f32>(maxima[i].x);
        best = max(best, segment_best[i]);
    }
    if (index == 0u) {
        kth = LOWEST;
        atomicStore(&kept, 0u);
    }
    let top = largest(best, index);  // its barriers also publish segment_best
    let k = params[TOP_K];
    if (k > 0u && k <= SEGMENTS) {
        for (var i = index; i < SEGMENTS; i += SIZE) {
            let own = segment_best[i];
            var rank = 0u;
            for (var j = 0u; j < SEGMENTS; j++) {
                let other = segment_best[j];
                rank += select(0u, 1u, other > own || (other == own && j < i));
            }
            if (rank == k - 1u) {
                kth = own;
            }
        }
        workgroupBarrier();
    }
    var bound = kth;
    let p = setting(TOP_P);
    let some = k > 0u && k < VOCABULARY;
    if (p < 1.0 && !some) {
        bound = top - log({{ vocabulary }}.0 / (1.0 - p)) - 0.01;
    }
    if (p >= 1.0 || !some) {
        bound = max(bound, min(top, top + setting(LOG_MIN_P)));
    }
    let penalties = penalties_on();
    let first = group.x * {{ length // 4 }}u;
    let end = min(first + {{ length // 4 }}u, {{ slices }}u);
    for (var s = first + index; s < end; s += SIZE) {
        let v = values_at(s, penalties);
        for (var c = 0u; c < 4u; c++) {
            if (v[c] >= bound && 4u * s + c < VOCABULARY) {
                let at = atomicAdd(&kept, 1u);
                candidates[SEGMENTS + group.x * LENGTH + at] = vec2<u32>(bitcast<u32>(v[c]), 4u * s + c);
            }
        }
    }
    workgroupBarrier();
    if (index == 0u) {
        candidates[group.x] = vec2<u32>(atomicLoad(&kept), 0u);
    }
}
