// Matrix times matrix by tiles in workgroup memory: any device, f32 or (half) f16 products.
// See matmul/parts.wgsl for what is computed. Bindings: x, w (u: the up rows, where they lie in
// another part), y, bias, residual.
//
// In each step the workgroup decodes `step` groups of 32 columns of its rows into workgroup memory,
// beside the same columns of its tokens, slice by slice ([slice][position], so that neighbouring
// lanes touch neighbouring banks). An invocation then holds lane_tokens x lane_rows sums. With
// `half`, products are added up in f16 within `flush` groups, and those sums in f32.
//
// `paired`: an f16 sum holds two tokens, not two columns, so half as many registers are needed and
// half as many conversions. A slice of x is then two vectors, of two tokens and two columns each.
// `apart`: columns 0 and 2 of a slice come before 1 and 3, as they come out of a word of codes.
// `quads`: lanes 2i and 2i + 1 read the same weights, lanes i and i + 2 the same activations, which
// lets NVIDIA serve a whole subgroup's 8-byte reads at once instead of half by half.
// `double`: the next step is read while this one is computed, into a second pair of tiles.

{% import "quant/decode.wgsl" as quant %}
{% import "matmul/parts.wgsl" as parts with context %}
{% import "matvec/parts.wgsl" as rows with context %}
{% set float = quant.is_float(weights.w) %}
{% set scalar = "f16" if half else "f32" %}
{% set vec4 = "vec4<%s>" % scalar %}
{% set columns = tile_rows // lane_rows %}
{% set lines = tile_tokens // lane_tokens %}
{% set lane_pairs = lane_tokens // 2 %}
{% set pitch_w = tile_rows + pad_w %}
{% set pitch_x = (tile_tokens // 2 if paired else tile_tokens) + pad_x %}
{% set slices_of_step = 8 * step %}
{% set apart = by_bits and not float %}
{% set run = 8 * flush if half else slices_of_step %}
{# Add the products of slice k of the tiles. #}
{% macro products(k) %}
let at_w = ({{ k }}) * {{ pitch_w }}u + column;
let at_x = ({{ k }}) * {{ pitch_x * (2 if paired else 1) }}u + line;
{% for r in range(lane_rows) %}
let w_{{ r }} = tile_w[at_w + {{ r * columns }}u];
{% endfor %}
{% if paired %}
{% for p in range(lane_pairs) %}
let x_{{ p }}_0 = tile_x[at_x + {{ p * lines }}u];
let x_{{ p }}_1 = tile_x[at_x + {{ p * lines + pitch_x }}u];
{% for c in range(4) %}
{% for r in range(lane_rows) %}
half_{{ r }}_{{ p }} = fma(x_{{ p }}_{{ c // 2 }}.{{ ["xy", "zw"][c % 2] }}, w_{{ r }}.{{ "xyzw"[c] * 2 }}, half_{{ r }}_{{ p }});
{% endfor %}
{% endfor %}
{% endfor %}
{% else %}
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
{% endif %}
{% endmacro %}

{# Add the products of `run` slices from slice `first` on. #}
{% macro slices(first) %}
{% if half %}
{% for t in range(lane_pairs if paired else lane_tokens) %}{% for r in range(lane_rows) %}
var half_{{ r }}_{{ t }} = vec2<f16>(0.0);
{% endfor %}{% endfor %}
{% endif %}
{% if unroll >= run %}
{% for k in range(run) %}
{
    {{ products("%s + %du" % (first, k)) | indent(4) }}
}
{% endfor %}
{% else %}
for (var k = {{ first }}; k < {{ first }} + {{ run }}u; k += {{ unroll }}u) {
{% for k in range(unroll) %}
    {
        {{ products("k + %du" % k) | indent(8) }}
    }
{% endfor %}
}
{% endif %}
{% if half %}
{% for t in range(lane_pairs if paired else lane_tokens) %}{% for r in range(lane_rows) %}
{% if paired %}
sum_{{ r }}_{{ 2 * t }} += f32(half_{{ r }}_{{ t }}.x);
sum_{{ r }}_{{ 2 * t + 1 }} += f32(half_{{ r }}_{{ t }}.y);
{% else %}
sum_{{ r }}_{{ t }} += f32(half_{{ r }}_{{ t }}.x) + f32(half_{{ r }}_{{ t }}.y);
{% endif %}
{% endfor %}{% endfor %}
{% endif %}
{% endmacro %}

{# Add the products of a whole step, whose slices begin at `first`. #}
{% macro products_of_step(first) %}
{% if run == slices_of_step %}
{
    {{ slices(first) | indent(4) }}
}
{% else %}
for (var some = {{ first }}; some < {{ first }} + {{ slices_of_step }}u; some += {{ run }}u) {
    {{ slices("some") | indent(4) }}
}
{% endif %}
{% endmacro %}
var<workgroup> tile_w: array<{{ vec4 }}, {{ pitch_w * slices_of_step * (2 if double else 1) }}>;
var<workgroup> tile_x: array<{{ vec4 }}, {{ pitch_x * slices_of_step * (2 if paired else 1) * (2 if double else 1) }}>;

{{ parts.decoders(bound) }}
{{ parts.read_x(half) }}
{{ parts.weight_row(columns) }}
{{ rows.finish() }}
{% if not float %}
{{ parts.decoded(scalar, by_bits, apart) }}
{% endif %}
{% if paired %}
fn put_x(s: u32, p: u32, a: vec4<f16>, b: vec4<f16>) {
    let at = s * {{ 2 * pitch_x }}u + p;
{% set order = "xzyw" if apart else "xyzw" %}
    tile_x[at] = vec4<f16>(a.{{ order[0] }}, b.{{ order[0] }}, a.{{ order[1] }}, b.{{ order[1] }});
    tile_x[at + {{ pitch_x }}u] = vec4<f16>(a.{{ order[2] }}, b.{{ order[2] }}, a.{{ order[3] }}, b.{{ order[3] }});
}
{% else %}
fn put_x(s: u32, p: u32, v: {{ vec4 }}) {
    tile_x[s * {{ pitch_x }}u + p] = v{{ ".xzyw" if apart }};
}
{% endif %}

fn put_w(s: u32, p: u32, v: {{ vec4 }}) {
    tile_w[s * {{ pitch_w }}u + p] = v;
}

@compute @workgroup_size({{ threads }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let first_token = id.x * {{ tile_tokens }}u;
    let first_row = id.y * {{ parts.rows_made() }}u;
{% if quads %}
    let column = index / 2u % {{ columns }}u;
    let line = index / {{ 2 * columns }}u * 2u + index % 2u;
{% else %}
    let column = index % {{ columns }}u;
    let line = index / {{ columns }}u;
{% endif %}
{% for t in range(lane_tokens) %}{% for r in range(lane_rows) %}
    var sum_{{ r }}_{{ t }} = 0.0;
{% endfor %}{% endfor %}
    {{ parts.fetch_vars(scalar, float, columns) | indent(4) }}
{% if double %}
    {{ parts.fetch("0u", float) | indent(4) }}
    {{ parts.stash(scalar, float) | indent(4) }}
    var now = 0u;  // first slice of the tiles that are complete
    for (var g = 0u; g < {{ groups }}u; g += {{ step }}u) {
        workgroupBarrier();
        if (g + {{ step }}u < {{ groups }}u) {
            {{ parts.fetch("(g + %du)" % step, float) | indent(12) }}
        }
        {{ products_of_step("now") | indent(8) }}
        now = {{ slices_of_step }}u - now;
        if (g + {{ step }}u < {{ groups }}u) {
            {{ parts.stash(scalar, float, "now") | indent(12) }}
        }
    }
{% else %}
{% if prefetch %}
    {{ parts.fetch("0u", float) | indent(4) }}
{% endif %}
    for (var g = 0u; g < {{ groups }}u; g += {{ step }}u) {
{% if not prefetch %}
        // Before the barrier: the reads are on their way while slower subgroups still compute.
        {{ parts.fetch("g", float) | indent(8) }}
{% endif %}
        workgroupBarrier();
        {{ parts.stash(scalar, float) | indent(8) }}
        workgroupBarrier();
{% if prefetch %}
        if (g + {{ step }}u < {{ groups }}u) {
            {{ parts.fetch("(g + %du)" % step, float) | indent(12) }}
        }
{% endif %}
        {{ products_of_step("0u") | indent(8) }}
    }
{% endif %}
    {{ parts.finish_tile(columns, lines) | indent(4) }}
}
