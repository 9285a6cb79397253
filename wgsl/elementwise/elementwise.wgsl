// An elementwise expression over tensors of one shape: y = f(in0, in1, ...), a vector of four at a time.
// Bindings: the inputs [B, H, W, C] (for a gate: x [T, 2C], gates then ups), y [B, H, W, C] (written).
// Each invocation computes PER vectors, a whole grid apart, so that neighbours read neighbours.

const VECTORS: u32 = {{ vectors }}u;
const SPREAD: u32 = {{ spread }}u;

@compute @workgroup_size({{ size }})
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(local_invocation_index) index: u32,
) {
    let first = (group.x + group.y * {{ grid_x }}u) * {{ size }}u + index;
{% for k in range(per) %}
    if (first + {{ k }}u * SPREAD < VECTORS) {
        let i = first + {{ k }}u * SPREAD;
        let s = i % {{ slices }}u;
        let x = i / {{ slices }}u % {{ width }}u;
        let y = i / {{ slices * width }}u % {{ height }}u;
        let b = i / {{ slices * width * height }}u;
{% for load in loads %}
        let v{{ loop.index0 }} = {{ load }};
{% endfor %}
{% for line in lines %}
        {{ line }}
{% endfor %}
        y_write(b, y, x, s, e{{ lines | length - 1 }});
    }
{% endfor %}
}
