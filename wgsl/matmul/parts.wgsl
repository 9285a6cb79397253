{#
What all matrix-matrix kernels share. They compute, for every token t and output row i of one run of
rows of the weight,
    y[t, first + i] = act(gate) * up   or   sum,   then + residual[t, first + i]
where each sum is  dot(W[row], x[t]) + bias[row]; gated, row i has two sums: of the gate row and of
the up row. A row is finished by the functions of matvec/parts.wgsl.

A workgroup makes a tile of `tile_tokens` tokens by `tile_rows` rows of the weight. Gated, the first
half of those rows are gate rows and the second half the up rows that belong to them, so that one
invocation holds both. Positions p in a tile are laid out so that neighbouring invocations read
neighbouring positions: invocation column c of `columns` holds the positions i * columns + c, which
are the rows 4c .. 4c + 3 of each run of 4 * columns (a vector of y is four rows in a row).

Parameters: cols, slices (of x), tokens, rows_here, starts (first row within the part, for gate and
up), names (of the bound weights), bound (these once each), gate or none, steps (groups of 32 that
the loop covers, at least those of a row), groups (of a row), and those of matvec/parts.wgsl.
#}
{% import "quant/decode.wgsl" as quant %}
{# x with zeros past its last channel; `half`: as f16, where larger values become the largest. #}
{% macro read_x(half) %}
{% set type = "vec4<f16>" if half else "vec4<f32>" %}
fn x_in(t: u32, s: u32) -> {{ type }} {
{% if slices < 8 * steps %}
    if (s >= {{ slices }}u) {
        return {{ type }}(0.0);
    }
{% endif %}
{% if half and not x_half %}
    let v = {{ type }}(clamp(x_at(t, s), vec4<f32>(-65504.0), vec4<f32>(65504.0)));
{% else %}
    let v = {{ "x_at_h" if half else "x_at" }}(t, s);
{% endif %}
{% if cols % 4 %}
    let kept = vec4<u32>(4u * s) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>({{ cols }}u);
    return select({{ type }}(0.0), v, kept);
{% else %}
    return v;
{% endif %}
}
{% endmacro %}

{# Block decoders of every bound weight. #}
{% macro decoders(bound) %}
{{ quant.types() }}
{% for name in bound %}
{{ quant.decoder(name, weights[name]) }}
{% endfor %}
{% endmacro %}

{# `fn weight_row(first, p)`: the row within its part that belongs to position p of a tile. #}
{% macro weight_row(columns) %}
{% set half = tile_rows // 2 %}
fn weight_row(first_row: u32, p: u32) -> u32 {
{% if columns > 1 %}
    let at = p / {{ 4 * columns }}u * {{ 4 * columns }}u + p % {{ columns }}u * 4u + p / {{ columns }}u % 4u;
{% else %}
    let at = p;
{% endif %}
{% if gate is none %}
    return {{ starts[0] }}u + min(first_row + at, {{ rows_here - 1 }}u);
{% else %}
    return select({{ starts[0] }}u, {{ starts[1] }}u, at >= {{ half }}u) + min(first_row + at % {{ half }}u, {{ rows_here - 1 }}u);
{% endif %}
}
{% endmacro %}

{# Rows of y that one tile makes. #}
{% macro rows_made() %}{{ tile_rows if gate is none else tile_rows // 2 }}{% endmacro %}

{#
Finish rows i to i + count - 1 of token t from sums called pattern % first, pattern % (first + 1) and
so on (gated: of the gate rows from first, of the up rows from second).
#}
{% macro finish_rows(t, i, count, pattern, first, second) %}
{% if vec %}
{% for c in range(0, count, 4) %}
if ({{ i }} + {{ c }}u < {{ rows_here }}u) {
    finish({{ t }}, {{ i }} + {{ c }}u,
        vec4<f32>({% for k in range(4) %}{{ ", " if k }}{{ pattern % (first + c + k) }}{% endfor %}),
        vec4<f32>({% for k in range(4) %}{{ ", " if k }}{{ pattern % (second + c + k) }}{% endfor %}),
        early({{ t }}, {{ i }} + {{ c }}u));
}
{% endfor %}
{% else %}
{% for k in range(count) %}
if ({{ i }} + {{ k }}u < {{ rows_here }}u) {
    finish({{ t }}, {{ i }} + {{ k }}u, {{ pattern % (first + k) }}, {{ pattern % (second + k) }}, early({{ t }}, {{ i }} + {{ k }}u));
}
{% endfor %}
{% endif %}
{% endmacro %}
