// Matrix times matrix for devices that run shaders on the CPU, without workgroup memory.
// See matmul/parts.wgsl for what is computed. Bindings: x, w (u: the up rows, where they lie in
// another part), y, bias, residual.
//
// There the lanes of a subgroup are the lanes of one vector register, and a load whose address
// differs by lane is a loop over the lanes. So every lane has rows of its own; each load of x brings
// a different slice to every lane, which is then handed to all lanes by a broadcast, and every
// weight that was decoded serves all tokens of the tile.

{% import "quant/decode.wgsl" as quant %}
{% import "matmul/parts.wgsl" as parts with context %}
{% import "matvec/parts.wgsl" as rows with context %}
{% set float = quant.is_float(weights.w) %}
{% set per = tile_rows // lanes %}
{% set loads = tile_tokens * 8 // lanes %}
{% set made = per if gate is none else per // 2 %}
{{ parts.decoders(bound) }}
{{ parts.read_x(false) }}
{{ rows.finish() }}
@compute @workgroup_size({{ lanes }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let token = id.x * {{ tile_tokens }}u;
    let row = (id.y * {{ lanes }}u + index) * {{ made }}u;
{% for r in range(per) %}
    let at_{{ r }} = {{ starts[r // made] }}u + min(row + {{ r % made }}u, {{ rows_here - 1 }}u);
{% for t in range(tile_tokens) %}
    var sum_{{ r }}_{{ t }} = 0.0;
{% endfor %}
{% endfor %}
{% for m in range(loads) %}
    let token_{{ m }} = min(token + ({{ m * lanes }}u + index) / 8u, {{ tokens - 1 }}u);
{% endfor %}
    let slice = index % 8u;
    for (var g = 0u; g < {{ groups }}u; g++) {
{% for m in range(loads) %}
        let x_{{ m }} = x_in(token_{{ m }}, g * 8u + slice);
{% endfor %}
{% for r in range(per) %}
{% set name = names[r // made][1] %}
{% if float %}
{% for k in range(4) %}
        let e_{{ r }}_{{ k }} = {{ name }}_load8(at_{{ r }}, g * 4u + {{ k }}u);
{% endfor %}
{% else %}
        let q_{{ r }} = {{ name }}_group(at_{{ r }}, g);
{% endif %}
{% endfor %}
{% for j in range(8) %}
        {
{% for r in range(per) %}
{% if float %}
            let w_{{ r }} = e_{{ r }}_{{ j // 2 }}.{{ "ab"[j % 2] }};
{% else %}
            let w_{{ r }} = fma({{ quant.codes_f32(weights.w, "q_%d.%s[%d]" % (r, ["lo", "hi"][j // 4], j % 4)) }},
                vec4<f32>(q_{{ r }}.scale.{{ "xy"[j // 4] }}), vec4<f32>(-q_{{ r }}.min.{{ "xy"[j // 4] }}));
{% endif %}
{% endfor %}
{% for t in range(tile_tokens) %}
            let b_{{ t }} = subgroupBroadcast(x_{{ (t * 8 + j) // lanes }}, {{ (t * 8 + j) % lanes }}u);
{% for k in range(4) %}
{% for r in range(per) %}
            sum_{{ r }}_{{ t }} = fma(w_{{ r }}.{{ "xyzw"[k] }}, b_{{ t }}.{{ "xyzw"[k] }}, sum_{{ r }}_{{ t }});
{% endfor %}
{% endfor %}
{% endfor %}
        }
{% endfor %}
    }
{% for t in range(tile_tokens) %}
    if (token + {{ t }}u < {{ tokens }}u) {
        {{ parts.finish_rows("token + %du" % t, "row", made, "sum_%d_" ~ t, 0, per - made) | indent(8) }}
    }
{% endfor %}
}
