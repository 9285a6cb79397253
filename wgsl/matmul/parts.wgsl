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

{#
The loader of tiles of weights and activations as numbers of a `scalar` type. Every invocation
brings `x_each` slices of x (`paired`: of two tokens side by side) and `w_each` quarters of groups
(eight weights, of two slices) in each step: `fetch_vars` declares them, `fetch(g)` reads those of
the step from group g on, `stash` decodes them and hands them to
    put_x(s, p, v)  and  put_w(s, p, v)      slice s of the step, position p, four numbers
of the kernel (`paired`: put_x(s, p, a, b) with those of tokens 2p and 2p + 1); `first` is added to
s. Between the two a kernel may do something else while the reads are on their way.
#}
{% set x_tokens = 2 if paired else 1 %}
{% set x_vectors = tile_tokens * step * 8 // x_tokens %}
{% set w_quarters = tile_rows * step * 4 %}
{% set x_each = (x_vectors + threads - 1) // threads %}
{% set w_each = (w_quarters + threads - 1) // threads %}
{% macro at(n) %}{{ "index + %du" % (n * threads) if n else "index" }}{% endmacro %}
{% macro guard(n, count) %}{{ "if (%s < %du) " % (at(n), count) if (n + 1) * threads > count }}{% endmacro %}
{% macro in_step(n) %}{{ "(%s) / 4u %% %du" % (at(n), step) if step > 1 else "0u" }}{% endmacro %}
{% macro fetch_vars(scalar, float, columns) %}
{% for n in range(x_each) %}
{% for i in range(x_tokens) %}
let at_x_{{ n }}_{{ i }} = min(first_token + ({{ at(n) }}) / {{ 8 * step }}u{{ " * 2u + %du" % i if paired }}, {{ tokens - 1 }}u);
var x_fetched_{{ n }}_{{ i }}: vec4<{{ scalar }}>;
{% endfor %}
{% endfor %}
{% for n in range(w_each) %}
let p_{{ n }} = min(({{ at(n) }}) / {{ 4 * step }}u, {{ tile_rows - 1 }}u);
let at_w_{{ n }} = weight_row(first_row, p_{{ n }});
{% if float %}
var w_fetched_{{ n }}: Eight;
{% else %}
var w_fetched_{{ n }}: vec2<u32>;
var factors_{{ n }}: vec4<f32>;
{% endif %}
{% endfor %}
{% endmacro %}

{% macro fetch(g, float) %}
{% for n in range(x_each) %}
{% for i in range(x_tokens) %}
x_fetched_{{ n }}_{{ i }} = x_in(at_x_{{ n }}_{{ i }}, {{ g }} * 8u + ({{ at(n) }}) % {{ 8 * step }}u);
{% endfor %}
{% endfor %}
{% for n in range(w_each) %}
{
    let group = {{ "min(%s + %s, %du)" % (g, in_step(n), groups - 1) if step > 1 else g }};
    let k = index % 4u;
{% if bound | length > 1 %}
    if (p_{{ n }} < {{ tile_rows // 2 }}u) {
        {{ quarter(names[0][1], n, float) | indent(8) }}
    } else {
        {{ quarter(names[1][1], n, float) | indent(8) }}
    }
{% else %}
    {{ quarter("w", n, float) | indent(4) }}
{% endif %}
}
{% endfor %}
{% endmacro %}

{% macro quarter(name, n, float) %}
{% if float %}
w_fetched_{{ n }} = {{ name }}_load8(at_w_{{ n }}, group * 4u + k);
{%- else %}
w_fetched_{{ n }} = {{ name }}_pair(at_w_{{ n }}, group, k);
factors_{{ n }} = {{ name }}_factors(at_w_{{ n }}, group);
{%- endif %}
{% endmacro %}

{% macro stash(scalar, float, first="") %}
{% for n in range(x_each) %}
{{ guard(n, x_vectors) }}{
    put_x({{ first ~ " + " if first }}({{ at(n) }}) % {{ 8 * step }}u, ({{ at(n) }}) / {{ 8 * step }}u, x_fetched_{{ n }}_0{{ ", x_fetched_%d_1" % n if paired }});
}
{% endfor %}
{% for n in range(w_each) %}
{{ guard(n, w_quarters) }}{
    let s = {{ first ~ " + " if first }}{{ "%s * 8u + " % in_step(n) if step > 1 }}index % 4u{{ " * 2u" if float }};
{% if float %}
    put_w(s, p_{{ n }}, vec4<{{ scalar }}>(w_fetched_{{ n }}.a));
    put_w(s + 1u, p_{{ n }}, vec4<{{ scalar }}>(w_fetched_{{ n }}.b));
{% else %}
    put_w(s, p_{{ n }}, decoded(w_fetched_{{ n }}.x, factors_{{ n }}.x, factors_{{ n }}.z));
    put_w(s + 4u, p_{{ n }}, decoded(w_fetched_{{ n }}.y, factors_{{ n }}.y, factors_{{ n }}.w));
{% endif %}
}
{% endfor %}
{% endmacro %}

{#
`fn decoded(word, scale, minimum)`: the weights of four codes; `by_bits`: in f16 throughout; `apart`:
weights 0 and 2, then 1 and 3, as they come out of the word.
#}
{% macro decoded(scalar, by_bits, apart=false) %}
fn decoded(word: u32, scale: f32, minimum: f32) -> vec4<{{ scalar }}> {
{% if by_bits %}
    // A byte below the exponent of 1024 is 1024 plus that byte.
{% set signed = weights.w.kind == "q8_0" %}
    let codes = word{{ " ^ 0x80808080u" if signed }};
    let even = {{ halves("(codes & 0x00ff00ffu) | 0x64006400u") }};
    let odd = {{ halves("((codes >> 8u) & 0x00ff00ffu) | 0x64006400u") }};
    let whole = {{ "vec4<f16>(even, odd)" if apart else "vec4<f16>(even.x, odd.x, even.y, odd.y)" }} - vec4<f16>({{ 1152 if signed else 1024 }}.0h);
    return fma(whole, vec4<f16>(f16(scale)), vec4<f16>(f16(-minimum)));
{% else %}
    return vec4<{{ scalar }}>(fma({{ quant.codes_f32(weights.w, "word") }}, vec4<f32>(scale), vec4<f32>(-minimum)));
{% endif %}
}
{% endmacro %}

{# Two f16 from the bits of a word: naga refuses the bitcast, and this costs no more. #}
{% macro halves(word) %}
{{ "bitcast<vec2<f16>>(%s)" % word if caps.backend == "dawn" else "vec2<f16>(unpack2x16float(%s))" % word }}
{%- endmacro %}

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

{# Finish rows i to i + 3 of token t from sums in vectors of four. #}
{% macro finish_vectors(t, i, first, second) %}
{% if vec %}
if ({{ i }} < {{ rows_here }}u) {
    finish({{ t }}, {{ i }}, {{ first }}, {{ second }}, early({{ t }}, {{ i }}));
}
{% else %}
for (var k = 0u; k < 4u && {{ i }} + k < {{ rows_here }}u; k++) {
    finish({{ t }}, {{ i }} + k, {{ first }}[k], {{ second }}[k], early({{ t }}, {{ i }} + k));
}
{% endif %}
{% endmacro %}

{# Finish all sums of an invocation, called sum_row_token. #}
{% macro finish_tile(columns, lines) %}
{% set runs = lane_rows // 4 if gate is none else lane_rows // 8 %}
{% for t in range(lane_tokens) %}
{
    let t = first_token + {{ "2u * line + %du" % (t // 2 * 2 * lines + t % 2) if paired else "line + %du" % (t * lines) }};
    if (t < {{ tokens }}u) {
{% for c in range(runs) %}
        let i_{{ c }} = first_row + {{ 4 * columns * c }}u + 4u * column;
        {{ finish_rows("t", "i_%d" % c, 4, "sum_%d_" ~ t, 4 * c, 4 * c + lane_rows - 4 * runs) | indent(8) }}
{% endfor %}
    }
}
{% endfor %}
{% endmacro %}
