{#
What all convolution kernels share. They compute, as one matrix product whose columns are the taps
(ky, kx) times the channels of the input,
    y[p, o] = act(sum over taps, c of W[o, (tap, c)] * f(x[pixel of p and tap, c]) + bias[o]
                  + shift[b or 0, o] + residual[p, o])
where p counts the output pixels of all pictures, pixels outside the picture are zero, `upsample`
reads every input pixel twice in both directions, the channels of `skip` follow those of x, and f is
the group norm that lies before:  norm_act(x * table[b, 0, c] + table[b, 1, c]).

Parameters: height, width (of x once upsampled), out_height, out_width, pixels (of all outputs), kernel_h, kernel_w,
stride, pad_left, pad_top, up (upsample is 1 << up), channels (of x and skip), x_channels (of x),
columns_in (of the weight), groups (of 32 columns), step (groups read at once), k_groups (groups in
whole steps), outputs (channels of y), has_skip, has_table, norm_act and act (WGSL expressions of v,
or none), first (output channel of the first row bound), rows_here (rows bound), has_bias, has_shift,
has_residual, one_shift (shift is the same for all pictures).
#}
{% import "quant/decode.wgsl" as quant %}
{% set taps = kernel_h * kernel_w %}
{% set in_slices = (channels + 3) // 4 %}
{% set plain = taps == 1 and stride == 1 and up == 0 and pad_left == 0 and pad_top == 0 %}
{# Output pixel p as (b, y, x). #}
{% macro pixel_of() %}
fn pixel_of(p: u32) -> vec3<u32> {
    return vec3<u32>(p / {{ out_height * out_width }}u, p / {{ out_width }}u % {{ out_height }}u, p % {{ out_width }}u);
}
{% endmacro %}

{#
`fn x_in(at, g, j)`: four of the columns (slice j of group g, or of a later one) that belong to an
output pixel at (b, y, x), as f16 with `half`. Past the last column it gives zeros.
#}
{% macro read_x(half) %}
{% set type = "vec4<f16>" if half else "vec4<f32>" %}
{% set bare = half and x_half and not has_table %}
{% if has_table %}
fn normed(b: u32, s: u32, x: vec4<f32>) -> vec4<f32> {
    let v = fma(x, table_read(b, 0u, 0u, s), table_read(b, 0u, 1u, s));
    return {{ norm_act if norm_act else "v" }};
}

{% endif %}
fn x_pixel(b: u32, y: u32, x: u32, s: u32) -> {{ type }} {
{% set read = "read_h" if bare else "read" %}
{% if has_skip %}
    var v: {{ "vec4<f16>" if bare else "vec4<f32>" }};
    if (s < {{ x_channels // 4 }}u) {
        v = x_{{ read }}(b, y, x, s);
    } else {
        v = skip_{{ read }}(b, y, x, s - {{ x_channels // 4 }}u);
    }
{% else %}
    let v = x_{{ read }}(b, y, x, s);
{% endif %}
{% set value = "normed(b, s, v)" if has_table else "v" %}
{% if half and has_table %}
    return vec4<f16>({{ value }});
{% elif half and not bare %}
    return vec4<f16>(clamp({{ value }}, vec4<f32>(-65504.0), vec4<f32>(65504.0)));
{% else %}
    return {{ value }};
{% endif %}
}

{% if channels % 32 == 0 %}
{% set tap_groups = channels // 32 %}
fn x_in(at: vec3<u32>, group: u32, j: u32) -> {{ type }} {
{% if k_groups > groups %}
    let g = group + (j >> 3u);
    let s = j & 7u;
    if (g >= {{ groups }}u) {
        return {{ type }}(0.0);
    }
{% elif step > 1 %}
    let g = group + (j >> 3u);
    let s = j & 7u;
{% else %}
    let g = group;
    let s = j;
{% endif %}
{% if plain %}
    return x_pixel(at.x, at.y, at.z, g * 8u + s);
{% else %}
    {{ tap_position("g / %du" % tap_groups, type ~ "(0.0)") | indent(4) }}
    return x_pixel(at.x, {{ unscaled("iy") }}, {{ unscaled("ix") }}, g % {{ tap_groups }}u * 8u + s);
{% endif %}
}
{% elif channels % 4 == 0 %}
fn x_in(at: vec3<u32>, g: u32, j: u32) -> {{ type }} {
    let k = g * 8u + j;
{% if taps * in_slices < 8 * k_groups %}
    if (k >= {{ taps * in_slices }}u) {
        return {{ type }}(0.0);
    }
{% endif %}
{% if plain %}
    return x_pixel(at.x, at.y, at.z, k);
{% else %}
    {{ tap_position("k / %du" % in_slices, type ~ "(0.0)") | indent(4) }}
    return x_pixel(at.x, {{ unscaled("iy") }}, {{ unscaled("ix") }}, k % {{ in_slices }}u);
{% endif %}
}
{% else %}
// Channels that are no multiple of four: each column is read for itself.
fn x_column(at: vec3<u32>, column: u32) -> {{ "f16" if half else "f32" }} {
    if (column >= {{ columns_in }}u) {
        return 0.0;
    }
    let c = column % {{ channels }}u;
{% if plain %}
    return x_pixel(at.x, at.y, at.z, c >> 2u)[c & 3u];
{% else %}
    {{ tap_position("column / %du" % channels, "0.0") | indent(4) }}
    return x_pixel(at.x, {{ unscaled("iy") }}, {{ unscaled("ix") }}, c >> 2u)[c & 3u];
{% endif %}
}

fn x_in(at: vec3<u32>, g: u32, j: u32) -> {{ type }} {
    let c = 4u * (g * 8u + j);
    return {{ type }}(x_column(at, c), x_column(at, c + 1u), x_column(at, c + 2u), x_column(at, c + 3u));
}
{% endif %}
{% endmacro %}

{# Input position (before upsampling) of a tap; leaves the function outside the picture. #}
{% macro tap_position(tap, zero) %}
let tap = {{ tap }};
// Above and left of the picture the difference wraps around and is then too large as well.
let iy = at.y * {{ stride }}u + tap / {{ kernel_w }}u - {{ pad_top }}u;
let ix = at.z * {{ stride }}u + tap % {{ kernel_w }}u - {{ pad_left }}u;
if (iy >= {{ height }}u || ix >= {{ width }}u) {
    return {{ zero }};
}
{%- endmacro %}

{% macro unscaled(name) %}{{ "%s >> 1u" % name if up else name }}{% endmacro %}

{#
The loader of tiles of pixels and weights as numbers of a `scalar` type. Every invocation brings
`x_each` slices of x and `w_each` quarters of groups (eight weights, of two slices) in each step:
`fetch_vars` declares them, `fetch(g)` reads those of the step from group g on, `stash` decodes them
and hands them to
    put_x(s, p, v)  and  put_w(s, p, v)      slice s of the step, position p, four numbers
of the kernel. Between the two a kernel may do something else while the reads are on their way.
#}
{% set x_vectors = tile_pixels * step * 8 %}
{% set w_quarters = tile_rows * step * 4 %}
{% set x_each = (x_vectors + threads - 1) // threads %}
{% set w_each = (w_quarters + threads - 1) // threads %}
{% macro at(n) %}{{ "(index + %du)" % (n * threads) if n else "index" }}{% endmacro %}
{% macro guard(n, count) %}{{ "if (%s < %du) " % (at(n), count) if (n + 1) * threads > count }}{% endmacro %}
{% macro in_step(n) %}{{ "%s / 4u %% %du" % (at(n), step) if step > 1 else "0u" }}{% endmacro %}
{% macro fetch_vars(scalar, float) %}
{% for n in range(x_each) %}
let at_x_{{ n }} = pixel_of(min(first_pixel + {{ at(n) }} / {{ 8 * step }}u, {{ pixels - 1 }}u));
var x_fetched_{{ n }}: vec4<{{ scalar }}>;
{% endfor %}
{% for n in range(w_each) %}
let p_{{ n }} = min({{ at(n) }} / {{ 4 * step }}u, {{ tile_rows - 1 }}u);
let at_w_{{ n }} = {{ starts }}u + weight_row(first_row, p_{{ n }});
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
x_fetched_{{ n }} = x_in(at_x_{{ n }}, {{ g }}, {{ at(n) }} % {{ 8 * step }}u);
{% endfor %}
{% for n in range(w_each) %}
{
    let group = {{ "min(%s + %s, %du)" % (g, in_step(n), groups - 1) if step > 1 else g }};
{% if float %}
    w_fetched_{{ n }} = w_load8(at_w_{{ n }}, group * 4u + index % 4u);
{% else %}
    w_fetched_{{ n }} = w_pair(at_w_{{ n }}, group, index % 4u);
    factors_{{ n }} = w_factors(at_w_{{ n }}, group);
{% endif %}
}
{% endfor %}
{% endmacro %}

{% macro stash(scalar, float) %}
{% for n in range(x_each) %}
{{ guard(n, x_vectors) }}{
    put_x({{ at(n) }} % {{ 8 * step }}u, {{ at(n) }} / {{ 8 * step }}u, x_fetched_{{ n }});
}
{% endfor %}
{% for n in range(w_each) %}
{{ guard(n, w_quarters) }}{
    let s = {{ "%s * 8u + " % in_step(n) if step > 1 }}index % 4u{{ " * 2u" if float }};
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

{# The groups of 32 columns that this workgroup adds up; with splits a part of them. #}
{% macro span() %}
{% if splits == 1 %}
let begin = 0u;
let end = {{ groups }}u;
{% else %}
let begin = id.z % {{ splits }}u * {{ split_groups }}u;
let end = min(begin + {{ split_groups }}u, {{ groups }}u);
{% endif %}
{% endmacro %}

{# The weights of four codes of an integer kind. #}
{% macro decoded(scalar) %}
fn decoded(word: u32, scale: f32, minimum: f32) -> vec4<{{ scalar }}> {
    return vec4<{{ scalar }}>(fma({{ quant.codes_f32(weights.w, "word") }}, vec4<f32>(scale), vec4<f32>(-minimum)));
}
{% endmacro %}

{# Hand on the sum of pixel p (at `at`) and channels o to o + 3. #}
{% macro hand_on(p, o, sum) %}
{% if splits == 1 %}
finish(pixel_of({{ p }}), {{ o }}, {{ sum }});
{%- else %}
partial_put(id.z % {{ splits }}u * {{ pixels }}u + {{ p }}, ({{ o }} + {{ first }}u) >> 2u, {{ sum }});
{%- endif %}
{% endmacro %}

{# `fn finish(at, o, sum)`: the end of output channels o to o + 3 (from the first row bound). #}
{% macro finish() %}
fn finish(at: vec3<u32>, o: u32, sum: vec4<f32>) {
    let s = (o + {{ first }}u) >> 2u;
    var v = sum;
{% if has_bias %}
    v += bias_at(0u, s);
{% endif %}
{% if has_shift %}
    v += shift_at({{ "0u" if one_shift else "at.x" }}, s);
{% endif %}
{% if has_residual %}
    v += residual_read(at.x, at.y, at.z, s);
{% endif %}
{% if act %}
    v = {{ act }};
{% endif %}
{% if outputs % 4 %}
    // The padding of the last slice stays zero.
    v = select(vec4<f32>(0.0), v, vec4<u32>(4u * s) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>({{ outputs }}u));
{% endif %}
    y_write(at.x, at.y, at.z, s, v);
}
{% endmacro %}
