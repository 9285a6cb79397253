// Tensors side by side along the channels: y = [in0 | in1 | ...].
// Bindings: in0 [T, C0], in1 [T, C1], ..., y [T, C0 + C1 + ...] (written).
// One invocation a vector of four channels; parts that do not start at a multiple of four are
// gathered a channel at a time.

{% if not aligned %}
fn channel(row: u32, c: u32) -> f32 {
{% for part in parts %}
    if (c < {{ part.end }}u) {
        return in{{ loop.index0 }}_scalar(row, c - {{ part.start }}u);
    }
{% endfor %}
    return 0.0;
}

{% endif %}
@compute @workgroup_size({{ size }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
) {
    let i = (group.x + group.y * {{ grid_x }}u) * {{ size }}u + index;
    if (i >= {{ vectors }}u) {
        return;
    }
    let row = i / {{ slices }}u;
    let s = i % {{ slices }}u;
{% if aligned %}
    var v: vec4<f32>;
{% for part in parts %}
    {{ "if" if loop.first else "else if" }} (s < {{ (part.end + 3) // 4 }}u) {
        v = in{{ loop.index0 }}_at(row, s - {{ part.start // 4 }}u);
    }
{% endfor %}
{% else %}
    let c = 4u * s;
    let v = vec4<f32>(channel(row, c), channel(row, c + 1u), channel(row, c + 2u), channel(row, c + 3u));
{% endif %}
    y_put(row, s, v);
}
