// Matrix times vector for devices that run shaders on the CPU: one invocation makes whole rows.
// See matvec/parts.wgsl for what is computed. Bindings as in matvec/lanes.wgsl.
//
// The lanes of a subgroup are lanes of one vector register there: every lane has rows of its own,
// activations are the same for all. With `shared` (subgroups of eight) each lane loads one of the
// eight vectors of a group and tells the others, since a load costs one step a lane there, even
// where all lanes read one address. Codes become floats by masking in place: a byte at bits 8k to 8k + 7 is 256^k times its
// value, which one product at the end of a group takes back.

{% import "quant/decode.wgsl" as quant %}
{% import "matvec/parts.wgsl" as parts with context %}
{% set parcel = 4 if vec else 1 %}
{% set groups = (cols + 31) // 32 %}
{% set float = quant.is_float(weights.w) %}
{% set signed = weights.w.kind == "q8_0" %}
{% set halves = quant.halves_differ(weights.w) %}
{% set with_min = not quant.no_min(weights.w) and not float %}
{{ quant.types() }}
{% for name in bound %}
{{ quant.decoder(name, weights[name]) }}
{% endfor %}
{{ parts.read_x() }}
{{ parts.finish() }}
// Four codes as floats that are 2^0, 2^8, 2^16, 2^24 times too large (signed: all 2^24 times).
fn scaled_codes(word: u32) -> vec4<f32> {
{% if signed %}
    let bytes = (vec4<u32>(word) << vec4<u32>(24u, 16u, 8u, 0u)) & vec4<u32>(0xff000000u);
{% else %}
    let bytes = vec4<u32>(word) & vec4<u32>(0xffu, 0xff00u, 0xff0000u, 0xff000000u);
{% endif %}
    return vec4<f32>(bitcast<vec4<i32>>(bytes));
}

fn unscaled(sums: vec4<f32>) -> f32 {
{% if signed %}
    return dot(sums, vec4<f32>({{ 2.0 ** -24 }}));
{% else %}
    return dot(sums, vec4<f32>(1.0, {{ 2.0 ** -8 }}, {{ 2.0 ** -16 }}, {{ 2.0 ** -24 }}));
{% endif %}
}

@compute @workgroup_size({{ lanes }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let group = id.x{{ " + id.y * %du" % grid[0] if grid[1] > 1 }};
    let row = (group * {{ lanes }}u + index) * {{ rows }}u;
{% for m, name in names %}{% for r in range(rows) %}
    let at_{{ m }}_{{ r }} = {{ starts[m] }}u + {{ "min(row + %du, %du)" % (r, rows_here - 1) if ragged else "row + %du" % r }};
{% for t in range(tokens) %}
    var sum_{{ m }}_{{ r }}_{{ t }} = 0.0;
{% endfor %}{% endfor %}{% endfor %}
{% if norm_eps is not none %}
{% for t in range(tokens) %}
    var squares_{{ t }} = vec4<f32>(0.0);
{% endfor %}
{% if not shared %}
    for (var s = 0u; s < {{ slices }}u; s++) {
{% for t in range(tokens) %}
        let v_{{ t }} = x_in({{ t }}u, s);
        squares_{{ t }} = fma(v_{{ t }}, v_{{ t }}, squares_{{ t }});
{% endfor %}
    }
{% endif %}
{% endif %}
    for (var g = 0u; g < {{ groups }}u; g++) {
{% for t in range(tokens) %}
{% if shared %}
        let mine_{{ t }} = x_in({{ t }}u, g * 8u + (index & 7u));
{% if norm_eps is not none %}
        squares_{{ t }} = fma(mine_{{ t }}, mine_{{ t }}, squares_{{ t }});
        let scaled_{{ t }} = mine_{{ t }} * gain_in(g * 8u + (index & 7u));
{% endif %}
{% for j in range(8) %}
        let x_{{ t }}_{{ j }} = subgroupBroadcast({{ "mine" if norm_eps is none else "scaled" }}_{{ t }}, {{ j }}u);
{% endfor %}
{% else %}
{% for j in range(8) %}
        let x_{{ t }}_{{ j }} = x_in({{ t }}u, g * 8u + {{ j }}u){{ " * gain_in(g * 8u + %du)" % j if norm_eps is not none }};
{% endfor %}
{% endif %}
{% if with_min %}
        let a_{{ t }} = dot(x_{{ t }}_0 + x_{{ t }}_1 + x_{{ t }}_2 + x_{{ t }}_3, vec4<f32>(1.0));
        let b_{{ t }} = dot(x_{{ t }}_4 + x_{{ t }}_5 + x_{{ t }}_6 + x_{{ t }}_7, vec4<f32>(1.0));
{% endif %}
{% endfor %}
{% for m, name in names %}{% for r in range(rows) %}
        {
{% if float %}
{% for k in range(4) %}
            let q_{{ k }} = {{ name }}_load8(at_{{ m }}_{{ r }}, g * 4u + {{ k }}u);
{% endfor %}
{% for t in range(tokens) %}
            var v_{{ t }} = q_0.a * x_{{ t }}_0;
{% for j in range(1, 8) %}
            v_{{ t }} = fma(q_{{ j // 2 }}.{{ "ab"[j % 2] }}, x_{{ t }}_{{ j }}, v_{{ t }});
{% endfor %}
            sum_{{ m }}_{{ r }}_{{ t }} += dot(v_{{ t }}, vec4<f32>(1.0));
{% endfor %}
{% else %}
            let q = {{ name }}_group(at_{{ m }}_{{ r }}, g);
{% for j in range(8) %}
            let c_{{ j }} = scaled_codes(q.{{ "lo" if j < 4 else "hi" }}[{{ j % 4 }}]);
{% endfor %}
{% for t in range(tokens) %}
{% set sum = "sum_%d_%d_%d" % (m, r, t) %}
            var p_{{ t }} = c_0 * x_{{ t }}_0;
{% for j in range(1, 4) %}
            p_{{ t }} = fma(c_{{ j }}, x_{{ t }}_{{ j }}, p_{{ t }});
{% endfor %}
{% if halves %}
            var n_{{ t }} = c_4 * x_{{ t }}_4;
{% for j in range(5, 8) %}
            n_{{ t }} = fma(c_{{ j }}, x_{{ t }}_{{ j }}, n_{{ t }});
{% endfor %}
            {{ sum }} += q.scale.x * unscaled(p_{{ t }}) + q.scale.y * unscaled(n_{{ t }}) - q.min.x * a_{{ t }} - q.min.y * b_{{ t }};
{% else %}
{% for j in range(4, 8) %}
            p_{{ t }} = fma(c_{{ j }}, x_{{ t }}_{{ j }}, p_{{ t }});
{% endfor %}
            {{ sum }} += q.scale.x * unscaled(p_{{ t }}){{ " - q.min.x * (a_%d + b_%d)" % (t, t) if with_min }};
{% endif %}
{% endfor %}
{% endif %}
        }
{% endfor %}{% endfor %}
    }
{% set last = names | length - 1 %}
{% for t in range(tokens) %}
{% if norm_eps is not none %}
    let squared_{{ t }} = dot(squares_{{ t }}, vec4<f32>(1.0));
    let inverse_{{ t }} = inverse_norm({{ "subgroupAdd(squared_%d)" % t if shared else "squared_%d" % t }});
{% endif %}
{% set scaled = " * inverse_%d" % t if norm_eps is not none else "" %}
{% for r in range(0, rows, parcel) %}
    if (row + {{ r }}u < {{ rows_here }}u) {
{% if vec %}
        finish({{ t }}u, row + {{ r }}u,
            vec4<f32>({% for k in range(4) %}{{ ", " if k }}sum_0_{{ r + k }}_{{ t }}{% endfor %}){{ scaled }},
            vec4<f32>({% for k in range(4) %}{{ ", " if k }}sum_{{ last }}_{{ r + k }}_{{ t }}{% endfor %}){{ scaled }},
            early({{ t }}u, row + {{ r }}u));
{% else %}
        finish({{ t }}u, row + {{ r }}u, sum_0_{{ r }}_{{ t }}{{ scaled }}, sum_{{ last }}_{{ r }}_{{ t }}{{ scaled }}, early({{ t }}u, row + {{ r }}u));
{% endif %}
    }
{% endfor %}
{% endfor %}
}
