// Matrix times matrix on signed bytes (dot4I8Packed): activations that quantise/int8.wgsl prepared.
// See matmul/parts.wgsl for what is computed. Bindings: x array<vec4<u32>> (the quantised rows), w
// (u: the up rows, where they lie in another part), y, bias, residual.
//
// A weight is scale * code - minimum, so a group of 32 adds
//     scale_w * scale_x * dot(codes_w, codes_x)  -  minimum * sum_x
// to a sum. Kinds whose minimum is a fixed multiple of the scale get signed codes instead, and no
// second term. The integer dot starts at the bits of 1.5 * 2^23, where floats are 1 apart: read as
// a float it is 1.5 * 2^23 + dot, so one fma scales it and takes the offset away, exactly.
//
// Tiles in workgroup memory are [16 columns][position] as vec4<u32>: one load feeds four dots, and
// neighbouring lanes touch neighbouring banks.

{% import "quant/decode.wgsl" as quant %}
{% import "matmul/parts.wgsl" as parts with context %}
{% import "matvec/parts.wgsl" as rows with context %}
{% set kind = weights.w.kind %}
{% set halves = kind == "q6_k" %}
{% set with_min = kind in ["q4_1", "q5_1", "q4_k", "q5_k"] %}
{% set offset = {"q4_0": 8, "q5_0": 16, "q6_k": 32}.get(kind, 0) %}
{% set columns = tile_rows // lane_rows %}
{% set lines = tile_tokens // lane_tokens %}
{% set pitch_w = tile_rows + pad_w %}
{% set pitch_x = tile_tokens + pad_x %}
{% set factor_type = "vec2<f32>" if halves or with_min else "f32" %}
{% set x_loads = tile_tokens * step * 2 %}
{% set x_factors = tile_tokens * step %}
{% set w_loads = tile_rows * step %}
{% set hold_w = lane_rows <= lane_tokens %}
var<workgroup> tile_w: array<vec4<u32>, {{ pitch_w * step * 2 }}>;
var<workgroup> tile_x: array<vec4<u32>, {{ pitch_x * step * 2 }}>;
var<workgroup> factors_w: array<{{ factor_type }}, {{ tile_rows * step }}>;
var<workgroup> factors_x: array<{{ "vec2<f32>" if with_min else "f32" }}, {{ tile_tokens * step }}>;

{{ parts.decoders(bound) }}
{{ parts.weight_row(columns) }}
{{ rows.finish() }}
{% if offset %}
// Codes minus {{ offset }}, as signed bytes: no byte borrows from its neighbour.
fn signed(codes: vec4<u32>) -> vec4<u32> {
    return ((codes | vec4<u32>(0x80808080u)) - vec4<u32>({{ "0x%02x%02x%02x%02xu" % (offset, offset, offset, offset) }})) ^ vec4<u32>(0x80808080u);
}
{% endif %}
{% macro in_range(n, count) %}{{ "if (index + %du < %du) " % (n * threads, count) if (n + 1) * threads > count }}{% endmacro %}
{% macro each(count) %}{{ (count + threads - 1) // threads }}{% endmacro %}
{% macro group_of(g, in_step) %}{{ "min(%s + %s, %du)" % (g, in_step, groups - 1) if step > 1 else g }}{% endmacro %}
{# Read what this invocation brings of the groups from g on. #}
{% macro fetch(g) %}
{% for n in range(each(x_loads) | int) %}
{
    let at = index + {{ n * threads }}u;
    x_fetched_{{ n }} = x[x_row_{{ n }} + 2u * {{ group_of(g, "at / 2u %% %du" % step) }} + at % 2u];
}
{% endfor %}
{% for n in range(each(x_factors) | int) %}
{
    let group = {{ group_of(g, "(index + %du) / %du" % (n * threads, tile_tokens)) }};
    let pair = x[factor_row_{{ n }} + (group >> 1u)];
    x_factor_{{ n }} = select(pair.xy, pair.zw, (group & 1u) == 1u);
{% if groups % step %}
    if ({{ g }} + (index + {{ n * threads }}u) / {{ tile_tokens }}u >= {{ groups }}u) {
        x_factor_{{ n }} = vec2<u32>(0u);
    }
{% endif %}
}
{% endfor %}
{% for n in range(each(w_loads) | int) %}
{
    let group = {{ group_of(g, "min((index + %du) / %du, %du)" % (n * threads, tile_rows, step - 1)) }};
{% if bound | length > 1 %}
    if ((index + {{ n * threads }}u) % {{ tile_rows }}u < {{ tile_rows // 2 }}u) {
        w_fetched_{{ n }} = {{ names[0][1] }}_group(w_row_{{ n }}, group);
    } else {
        w_fetched_{{ n }} = {{ names[1][1] }}_group(w_row_{{ n }}, group);
    }
{% else %}
    w_fetched_{{ n }} = w_group(w_row_{{ n }}, group);
{% endif %}
}
{% endfor %}
{% endmacro %}
{# Put it into workgroup memory. #}
{% macro stash() %}
{% for n in range(each(x_loads) | int) %}
{{ in_range(n, x_loads) }}{
    let at = index + {{ n * threads }}u;
    tile_x[at % {{ 2 * step }}u * {{ pitch_x }}u + at / {{ 2 * step }}u] = x_fetched_{{ n }};
}
{% endfor %}
{% for n in range(each(x_factors) | int) %}
{{ in_range(n, x_factors) }}{
    factors_x[index + {{ n * threads }}u] = bitcast<{{ "vec2<f32>" if with_min else "f32" }}>(x_factor_{{ n }}{{ "" if with_min else ".x" }});
}
{% endfor %}
{% for n in range(each(w_loads) | int) %}
{{ in_range(n, w_loads) }}{
    let at = index + {{ n * threads }}u;
    let slot = at / {{ tile_rows }}u * {{ 2 * pitch_w }}u + at % {{ tile_rows }}u;
    tile_w[slot] = {{ "signed" if offset }}(w_fetched_{{ n }}.lo);
    tile_w[slot + {{ pitch_w }}u] = {{ "signed" if offset }}(w_fetched_{{ n }}.hi);
{% if halves %}
    factors_w[at] = w_fetched_{{ n }}.scale;
{% elif with_min %}
    factors_w[at] = vec2<f32>(w_fetched_{{ n }}.scale.x, -w_fetched_{{ n }}.min.x);
{% else %}
    factors_w[at] = w_fetched_{{ n }}.scale.x;
{% endif %}
}
{% endfor %}
{% endmacro %}
{% macro take_w(r, in_step) %}
let w_{{ r }}_0 = tile_w[{{ 2 * in_step * pitch_w + r * columns }}u + column];
let w_{{ r }}_1 = tile_w[{{ (2 * in_step + 1) * pitch_w + r * columns }}u + column];
let factor_w_{{ r }} = factors_w[{{ in_step * tile_rows + r * columns }}u + column];
{% endmacro %}
{% macro take_x(t, in_step) %}
let x_{{ t }}_0 = tile_x[{{ 2 * in_step * pitch_x + t * lines }}u + line];
let x_{{ t }}_1 = tile_x[{{ (2 * in_step + 1) * pitch_x + t * lines }}u + line];
let factor_x_{{ t }} = factors_x[{{ in_step * tile_tokens + t * lines }}u + line];
let scale_x_{{ t }} = factor_x_{{ t }}{{ ".x" if with_min }};
let shift_x_{{ t }} = -12582912.0 * scale_x_{{ t }};
{% endmacro %}
{# The dot of half h (or of both) of a group, in floats, times the scale of x. #}
{% macro dots(r, t, h) %}
fma(bitcast<f32>(
{%- for k in range(4) %}{{ "dot4I8Packed(w_%d_%d.%s, x_%d_%d.%s) + (" % (r, h[0], "xyzw"[k], t, h[0], "xyzw"[k]) }}{% endfor %}
{%- if h | length > 1 %}{% for k in range(4) %}{{ "dot4I8Packed(w_%d_%d.%s, x_%d_%d.%s) + (" % (r, h[1], "xyzw"[k], t, h[1], "xyzw"[k]) }}{% endfor %}{% endif -%}
1262485504i{{ ")" * (4 * (h | length)) }}), scale_x_{{ t }}, shift_x_{{ t }})
{%- endmacro %}
{% macro product(r, t) %}
{% set sum = "sum_%d_%d" % (r, t) %}
{% if halves %}
{{ sum }} = fma({{ dots(r, t, [0]) }}, factor_w_{{ r }}.x, {{ sum }});
{{ sum }} = fma({{ dots(r, t, [1]) }}, factor_w_{{ r }}.y, {{ sum }});
{% else %}
{{ sum }} = fma({{ dots(r, t, [0, 1]) }}, factor_w_{{ r }}{{ ".x" if with_min }}, {{ sum }});
{% if with_min %}
{{ sum }} = fma(factor_w_{{ r }}.y, factor_x_{{ t }}.y, {{ sum }});
{% endif %}
{% endif %}
{% endmacro %}
@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let first_token = id.x * {{ tile_tokens }}u;
    let first_row = id.y * {{ parts.rows_made() }}u;
    let column = index % {{ columns }}u;
    let line = index / {{ columns }}u;
{% for t in range(lane_tokens) %}{% for r in range(lane_rows) %}
    var sum_{{ r }}_{{ t }} = 0.0;
{% endfor %}{% endfor %}
{% for n in range(each(x_loads) | int) %}
    let x_row_{{ n }} = min(first_token + (index + {{ n * threads }}u) / {{ 2 * step }}u, {{ tokens - 1 }}u) * {{ x_pitch // 4 }}u;
    var x_fetched_{{ n }}: vec4<u32>;
{% endfor %}
{% for n in range(each(x_factors) | int) %}
    let factor_row_{{ n }} = min(first_token + (index + {{ n * threads }}u) % {{ tile_tokens }}u, {{ tokens - 1 }}u) * {{ x_pitch // 4 }}u + {{ 2 * groups }}u;
    var x_factor_{{ n }}: vec2<u32>;
{% endfor %}
{% for n in range(each(w_loads) | int) %}
    let w_row_{{ n }} = weight_row(first_row, (index + {{ n * threads }}u) % {{ tile_rows }}u);
    var w_fetched_{{ n }}: Group;
{% endfor %}
{% if prefetch %}
    {{ fetch("0u") | indent(4) }}
{% endif %}
    for (var g = 0u; g < {{ groups }}u; g += {{ step }}u) {
        workgroupBarrier();
{% if not prefetch %}
        {{ fetch("g") | indent(8) }}
{% endif %}
        {{ stash() | indent(8) }}
        workgroupBarrier();
{% if prefetch %}
        if (g + {{ step }}u < {{ groups }}u) {
            {{ fetch("(g + %du)" % step) | indent(12) }}
        }
{% endif %}
{% for in_step in range(step) %}
        {
{% if hold_w %}
{% for r in range(lane_rows) %}
            {{ take_w(r, in_step) | indent(12) }}
{% endfor %}
{% for t in range(lane_tokens) %}
            {{ take_x(t, in_step) | indent(12) }}
{% for r in range(lane_rows) %}
            {{ product(r, t) | indent(12) }}
{% endfor %}
{% endfor %}
{% else %}
{% for t in range(lane_tokens) %}
            {{ take_x(t, in_step) | indent(12) }}
{% endfor %}
{% for r in range(lane_rows) %}
            {{ take_w(r, in_step) | indent(12) }}
{% for t in range(lane_tokens) %}
            {{ product(r, t) | indent(12) }}
{% endfor %}
{% endfor %}
{% endif %}
        }
{% endfor %}
    }
    {{ parts.finish_tile(columns, lines) | indent(4) }}
}
