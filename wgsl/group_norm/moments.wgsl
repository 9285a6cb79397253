// Mean and summed squared deviation of every channel over strands of pixels, in one pass.
// Bindings: x, skip [b, h, w, c], moments f32 [b, strands, 2 * slices * 4] (written: means first).
// One invocation takes four channels of one strand, which are `run` pixels in a row; neighbouring
// invocations take neighbouring channels. Deviations are taken from the strand's first pixel, so
// that a large mean costs no precision.

{% import "group_norm/parts.wgsl" as parts with context %}
{{ parts.joined() }}
@compute @workgroup_size({{ size }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let i = (id.x + id.y * {{ grid_x }}u) * {{ size }}u + index;
    let s = i % {{ slices }}u;
    let strand = i / {{ slices }}u % {{ strands }}u;
    let b = i / {{ slices * strands }}u;
    if (b >= {{ batch }}u) {
        return;
    }
    let begin = strand * {{ run }}u;
    let end = min(begin + {{ run }}u, {{ pixels }}u);
    let first = joined(b, begin / {{ width }}u, begin % {{ width }}u, s);
    var sums = vec4<f32>(0.0);
    var squares = vec4<f32>(0.0);
    for (var p = begin; p < end; p++) {
        let v = joined(b, p / {{ width }}u, p % {{ width }}u, s) - first;
        sums += v;
        squares = fma(v, v, squares);
    }
    let mean = sums / f32(end - begin);
    let row = b * {{ strands }}u + strand;
    moments_put(row, s, first + mean);
    moments_put(row, s + {{ slices }}u, max(squares - sums * mean, vec4<f32>(0.0)));
}
