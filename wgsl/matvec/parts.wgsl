{#
What all matrix-vector kernels share: reading the activations, and finishing a row.

The kernel computes, for every output row i of one run of rows and every token t,
    y[t, first + i] = act(gate) * up   or   sum,   then + residual[t, first + i]
where each sum is  dot(W[row], x[t] * gain) * rsqrt(mean(x[t]^2) + eps) + bias[row]; gain and eps
only with a fused norm. Gated, row i has two sums: of the gate row and of the up row.

Parameters: cols, slices (of x), tokens, total (channels of y), rows_here, first, norm_eps or none,
gate or none, has_residual, has_bias, bias_rows, gate_bias, up_bias (bias index of the first row),
pitch (scalars of a row of y), vec (y is written four channels at a time through its accessor, else
scalar by scalar into a raw buffer y), y_type.
#}
{% import "common/activations.wgsl" as activations %}
{% macro read_x() %}
{% if cols % 4 or slices % 2 %}
// Rows are packed in whole groups, activations in slices of four: what is missing is zero.
fn x_in(t: u32, s: u32) -> vec4<f32> {
    if (s >= {{ slices }}u) {
        return vec4<f32>(0.0);
    }
{% if cols % 4 %}
    let v = x_at(t, s);
    let kept = vec4<u32>(4u * s) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>({{ cols }}u);
    return select(vec4<f32>(0.0), v, kept);
{% else %}
    return x_at(t, s);
{% endif %}
}
{% if norm_eps is not none %}
fn gain_in(s: u32) -> vec4<f32> {
    return gain_at(0u, min(s, {{ slices - 1 }}u));
}
{% endif %}
{% else %}
fn x_in(t: u32, s: u32) -> vec4<f32> {
    return x_at(t, s);
}
{% if norm_eps is not none %}
fn gain_in(s: u32) -> vec4<f32> {
    return gain_at(0u, s);
}
{% endif %}
{% endif %}
{% endmacro %}

{# Functions that finish one row (or, with `vec`, four rows): `early` and `finish`. #}
{% macro finish() %}
{% set type = "vec4<f32>" if vec else "f32" %}
{% if gate is not none %}
{{ activations.gate(gate, type) }}
{% endif %}
{% if norm_eps is not none %}
fn inverse_norm(squares: f32) -> f32 {
    return inverseSqrt(squares * {{ 1.0 / cols }} + {{ norm_eps }});
}
{% endif %}
{% if has_bias %}
fn bias_of(row: u32) -> {{ type }} {
{% if not vec %}
    return bias_scalar(0u, row);
{% elif gate_bias % 4 == 0 and up_bias % 4 == 0 %}
    return bias_at(0u, row >> 2u);
{% else %}
    let rows = min(vec4<u32>(row) + vec4<u32>(0u, 1u, 2u, 3u), vec4<u32>({{ bias_rows - 1 }}u));
    return vec4<f32>(bias_scalar(0u, rows.x), bias_scalar(0u, rows.y), bias_scalar(0u, rows.z), bias_scalar(0u, rows.w));
{% endif %}
}
{% endif %}

// What is added at the end to row i of this run: loaded early, so that nothing waits for it.
fn early(t: u32, i: u32) -> {{ type }} {
    var v = {{ type }}(0.0);
{% if has_residual and vec %}
    v += residual_at(t, ({{ first }}u + i) >> 2u);
{% elif has_residual %}
    v += residual_scalar(t, {{ first }}u + i);
{% endif %}
{% if has_bias and gate is none %}
    v += bias_of({{ gate_bias }}u + i);
{% endif %}
    return v;
}

// a, b: the (gate and up) sums of row i; extra: what `early` gave.
fn finish(t: u32, i: u32, a: {{ type }}, b: {{ type }}, extra: {{ type }}) {
    let row = {{ first }}u + i;
{% if gate is none %}
    var v = a + extra;
{% elif has_bias %}
    var v = activate(a + bias_of({{ gate_bias }}u + i)) * (b + bias_of({{ up_bias }}u + i)) + extra;
{% else %}
    var v = activate(a) * b + extra;
{% endif %}
{% if vec %}
{% if total % 4 %}
    // The padding of the last slice stays zero.
    let rows = vec4<u32>(row) + vec4<u32>(0u, 1u, 2u, 3u);
    v = select(vec4<f32>(0.0), v, rows < vec4<u32>({{ total }}u));
{% endif %}
    y_put(t, row >> 2u, v);
{% else %}
    y[t * {{ pitch }}u + row] = {{ y_type }}(v);
{% if pitch != total %}
    if (row == {{ total - 1 }}u) {
{% for k in range(total, pitch) %}
        y[t * {{ pitch }}u + {{ k }}u] = {{ y_type }}(0.0);
{% endfor %}
    }
{% endif %}
{% endif %}
}
{% endmacro %}
