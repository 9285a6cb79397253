// Convolution for devices that run shaders on the CPU, without workgroup memory or barriers.
// See conv/parts.wgsl for what is computed. Bindings: x, skip, table, w, bias, shift, residual, y.
//
// There the lanes of a subgroup are the lanes of one vector register, and a load whose address
// differs by lane is a loop over the lanes. So every lane has lane_rows output channels of its own;
// each load of x brings another slice of another pixel to every lane, which is then handed to all
// lanes by a broadcast, and every weight that was read serves all pixels of the tile.

{% import "quant/decode.wgsl" as quant %}
{% import "conv/parts.wgsl" as parts with context %}
{% set float = quant.is_float(weights.w) %}
{% set loads = tile_pixels * 8 // threads %}
{{ quant.types() }}
{{ quant.decoder("w", weights.w) }}
{{ parts.pixel_of() }}
{{ parts.read_x(false) }}
{{ parts.finish() }}
@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let first_pixel = (id.x + id.y * {{ grid_x }}u) * {{ tile_pixels }}u;
    let row = (id.z * {{ threads }}u + index) * {{ lane_rows }}u;
    let slice = index % 8u;
{% for r in range(lane_rows) %}
    let at_{{ r }} = {{ starts }}u + min(row + {{ r }}u, {{ rows_here - 1 }}u);
{% for t in range(tile_pixels) %}
    var sum_{{ r }}_{{ t }} = 0.0;
{% endfor %}
{% endfor %}
{% for m in range(loads) %}
    let pixel_{{ m }} = pixel_of(min(first_pixel + ({{ m * threads }}u + index) / 8u, {{ pixels - 1 }}u));
{% endfor %}
    for (var g = 0u; g < {{ groups }}u; g++) {
{% for m in range(loads) %}
        let x_{{ m }} = x_in(pixel_{{ m }}, g, slice);
{% endfor %}
{% for r in range(lane_rows) %}
{% if float %}
{% for k in range(4) %}
        let e_{{ r }}_{{ k }} = w_load8(at_{{ r }}, g * 4u + {{ k }}u);
{% endfor %}
{% else %}
        let q_{{ r }} = w_group(at_{{ r }}, g);
{% endif %}
{% endfor %}
{% for j in range(8) %}
        {
{% for r in range(lane_rows) %}
{% if float %}
            let w_{{ r }} = e_{{ r }}_{{ j // 2 }}.{{ "ab"[j % 2] }};
{% else %}
            let w_{{ r }} = fma({{ quant.codes_f32(weights.w, "q_%d.%s[%d]" % (r, ["lo", "hi"][j // 4], j % 4)) }},
                vec4<f32>(q_{{ r }}.scale.{{ "xy"[j // 4] }}), vec4<f32>(-q_{{ r }}.min.{{ "xy"[j // 4] }}));
{% endif %}
{% endfor %}
{% for t in range(tile_pixels) %}
            let b_{{ t }} = subgroupBroadcast(x_{{ (t * 8 + j) // threads }}, {{ (t * 8 + j) % threads }}u);
{% for e in "xyzw" %}{% for r in range(lane_rows) %}
            sum_{{ r }}_{{ t }} = fma(w_{{ r }}.{{ e }}, b_{{ t }}.{{ e }}, sum_{{ r }}_{{ t }});
{% endfor %}{% endfor %}
{% endfor %}
        }
{% endfor %}
    }
{% for t in range(tile_pixels) %}
    {
        let p = first_pixel + {{ t }}u;
        if (p < {{ pixels }}u) {
            let at = pixel_of(p);
{% for c in range(0, lane_rows, 4) %}
            if (row + {{ c }}u < {{ rows_here }}u) {
                finish(at, row + {{ c }}u, vec4<f32>({% for k in range(4) %}{{ ", " if k }}sum_{{ c + k }}_{{ t }}{% endfor %}));
            }
{% endfor %}
        }
    }
{% endfor %}
}
