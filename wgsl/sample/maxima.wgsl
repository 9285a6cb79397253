// Sampler, first kernel: of each segment of the vocabulary the largest penalised logit, the lowest id
// that has it, and (when not greedy) the sum of exp(logit - largest).
// Bindings: logits [1, V], history u32 [V (+ window)], params u32 [16],
// maxima (written) [SEGMENTS] vec4<u32>: bits of the largest, id, bits of the sum, 0.

{% import "sample/common.wgsl" as common with context %}
{% include "sample/common.wgsl" %}
{{ common.penalised() }}
{{ common.tree("largest", "f32", "LOWEST", "max(a, b)") }}
{{ common.tree("lowest_id", "u32", "", "min(a, b)") }}
{{ common.tree("total", "f32", "0.0", "a + b") }}

@compute @workgroup_size({{ size }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
) {
    let first = group.x * {{ length // 4 }}u;
    let end = min(first + {{ length // 4 }}u, {{ slices }}u);
    let penalties = penalties_on();
    var best = LOWEST;
    var id = 0xffffffffu;
    for (var s = first + index; s < end; s += SIZE) {
        let v = values_at(s, penalties);
        // Downwards, so that the lowest of equal ids is left.
        for (var c = 0u; c < 4u; c++) {
            let value = v[3u - c];
            let mine = 4u * s + 3u - c;
            if (value > best || (value == best && mine < id)) {
                best = value;
                id = mine;
            }
        }
    }
    let most = largest(best, index);
    let chosen = lowest_id(select(0xffffffffu, id, best == most), index);
    var sum = 0.0;
    if (setting(TEMPERATURE) > 0.0) {
        for (var s = first + index; s < end; s += SIZE) {
            let v = exp(max(values_at(s, penalties) - most, vec4<f32>(-80.0)));
            sum += (v.x + v.y) + (v.z + v.w);
        }
        sum = total(sum, index);
    }
    if (index == 0u) {
        maxima[group.x] = vec4<u32>(bitcast<u32>(most), chosen, bitcast<u32>(sum), 0u);
    }
}
