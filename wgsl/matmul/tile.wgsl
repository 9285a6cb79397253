// Matrix times matrix by tiles in workgroup memory: any device, f32 or (half) f16 products.
// See matmul/parts.wgsl for what is computed. Bindings: x, w (u: the up rows, where they lie in
// another part), y, bias, residual.
//
// In each step the workgroup decodes `step` groups of 32 columns of its rows into workgroup memory,
// beside the same columns of its tokens, slice by slice ([slice][position], so that neighbouring
// lanes touch neighbouring banks). An invocation then holds lane_tokens x lane_rows sums. With
// `half`, products are added up in f16 within one group, and the groups in f32.

{% import "quant/decode.wgsl" as quant %}
{% import "matmul/parts.wgsl" as parts with context %}
{% import "matvec/parts.wgsl" as rows with context %}
{% set float = quant.is_float(weights.w) %}
{% set scalar = "f16" if half else "f32" %}
{% set vec4 = "vec4<%s>" % scalar %}
{% set columns = tile_rows // lane_rows %}
{% set lines = tile_tokens // lane_tokens %}
{% set threads = columns * lines %}
{% set pitch_w = tile_rows + pad_w %}
{% set pitch_x = tile_tokens + pad_x %}
{% set quarters = tile_rows * step * 4 %}
{% set vectors = tile_tokens * step * 8 %}
{# a, b: the eight weights of quarter k of a group, in f32. #}
{% macro quarter(name) %}
{% if float %}
let eight = {{ name }}_load8(row, group * 4u + k);
a = eight.a;
b = eight.b;
{% else %}
let codes = {{ name }}_pair(row, group, k);
let factors = {{ name }}_factors(row, group);
a = fma({{ quant.codes_f32(weights.w, "codes.x") }}, vec4<f32>(factors.x), vec4<f32>(-factors.z));
b = fma({{ quant.codes_f32(weights.w, "codes.y") }}, vec4<f32>(factors.y), vec4<f32>(-factors.w));
{% endif %}
{% endmacro %}
{# Add the products of slice k of the tiles. #}
{% macro products(k) %}
let at_w = {{ k }} * {{ pitch_w }}u + column;
let at_x = {{ k }} * {{ pitch_x }}u + line;
{% for r in range(lane_rows) %}
let w_{{ r }} = tile_w[at_w + {{ r * columns }}u];
{% endfor %}
{% for t in range(lane_tokens) %}
let x_{{ t }} = tile_x[at_x + {{ t * lines }}u];
{% for r in range(lane_rows) %}
{% if half %}
{% set sum = "half_%d_%d" % (r, t) %}
{{ sum }} = fma(x_{{ t }}.zw, w_{{ r }}.zw, fma(x_{{ t }}.xy, w_{{ r }}.xy, {{ sum }}));
{% else %}
{% set sum = "sum_%d_%d" % (r, t) %}
{{ sum }} = fma(x_{{ t }}.x, w_{{ r }}.x, {{ sum }});
{{ sum }} = fma(x_{{ t }}.y, w_{{ r }}.y, {{ sum }});
{{ sum }} = fma(x_{{ t }}.z, w_{{ r }}.z, {{ sum }});
{{ sum }} = fma(x_{{ t }}.w, w_{{ r }}.w, {{ sum }});
{% endif %}
{% endfor %}
{% endfor %}
{% endmacro %}
var<workgroup> tile_w: array<{{ vec4 }}, {{ pitch_w * step * 8 }}>;
var<workgroup> tile_x: array<{{ vec4 }}, {{ pitch_x * step * 8 }}>;

{{ parts.decoders(bound) }}
{{ parts.read_x(half) }}
{{ parts.weight_row(columns) }}
{{ rows.finish() }}
@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let first_token = id.x * {{ tile_tokens }}u;
    let first_row = id.y * {{ parts.rows_made() }}u;
    let column = index % {{ columns }}u;
    let line = index / {{ columns }}u;
{% for t in range(lane_tokens) %}{% for r in range(lane_rows) %}
    var sum_{{ r }}_{{ t }} = 0.0;
{% endfor %}{% endfor %}
    for (var g = 0u; g < {{ groups }}u; g += {{ step }}u) {
        workgroupBarrier();
        for (var at = index; at < {{ vectors }}u; at += {{ threads }}u) {
            let s = at % {{ 8 * step }}u;
            let p = at / {{ 8 * step }}u;
            tile_x[s * {{ pitch_x }}u + p] = x_in(min(first_token + p, {{ tokens - 1 }}u), g * 8u + s);
        }
        for (var at = index; at < {{ quarters }}u; at += {{ threads }}u) {
            // A quarter of a group: eight weights, of two slices.
            let k = at % 4u;
            let p = at / {{ 4 * step }}u;
            let in_step = {{ "at / 4u %% %du" % step if step > 1 else "0u" }};
            let group = {{ "min(g + in_step, %du)" % (groups - 1) if groups % step else "g + in_step" }};
            let row = weight_row(first_row, p);
{% if bound | length > 1 %}
            var a: vec4<f32>;
            var b: vec4<f32>;
            if (p < {{ tile_rows // 2 }}u) {
                {{ quarter(names[0][1]) | indent(16) }}
            } else {
                {{ quarter(names[1][1]) | indent(16) }}
            }
{% else %}
            var a: vec4<f32>;
            var b: vec4<f32>;
            {{ quarter("w") | indent(12) }}
{% endif %}
{% if float %}
            let at_w = (in_step * 8u + 2u * k) * {{ pitch_w }}u + p;
            tile_w[at_w] = {{ vec4 }}(a);
            tile_w[at_w + {{ pitch_w }}u] = {{ vec4 }}(b);
{% else %}
            let at_w = (in_step * 8u + k) * {{ pitch_w }}u + p;
            tile_w[at_w] = {{ vec4 }}(a);
            tile_w[at_w + {{ 4 * pitch_w }}u] = {{ vec4 }}(b);
{% endif %}
        }
        workgroupBarrier();
{% for in_step in range(step) %}
        {
{% if half %}
{% for t in range(lane_tokens) %}{% for r in range(lane_rows) %}
            var half_{{ r }}_{{ t }} = vec2<f16>(0.0);
{% endfor %}{% endfor %}
{% endif %}
{% if unroll == 8 %}
{% for k in range(8) %}
            {
                {{ products("%du" % (8 * in_step + k)) | indent(16) }}
            }
{% endfor %}
{% else %}
            for (var k = {{ 8 * in_step }}u; k < {{ 8 * in_step + 8 }}u; k++) {
                {{ products("k") | indent(16) }}
            }
{% endif %}
{% if half %}
{% for t in range(lane_tokens) %}{% for r in range(lane_rows) %}
            sum_{{ r }}_{{ t }} += f32(half_{{ r }}_{{ t }}.x) + f32(half_{{ r }}_{{ t }}.y);
{% endfor %}{% endfor %}
{% endif %}
        }
{% endfor %}
    }
{% set runs = lane_rows // 4 if gate is none else lane_rows // 8 %}
{% for t in range(lane_tokens) %}
    {
        let t = first_token + line + {{ t * lines }}u;
        if (t < {{ tokens }}u) {
{% for c in range(runs) %}
            let i_{{ c }} = first_row + {{ 4 * columns * c }}u + 4u * column;
            {{ parts.finish_rows("t", "i_%d" % c, 4, "sum_%d_" ~ t, 4 * c, 4 * c + lane_rows - 4 * runs) | indent(12) }}
{% endfor %}
        }
    }
{% endfor %}
}
