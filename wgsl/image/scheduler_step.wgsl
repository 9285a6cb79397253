// One step of any sampler, all of which are linear: x and what is kept from step to step become
// sums of x, the model's output, what was kept before and noise, with the step's factors.
//     model = uncond + GUIDANCE * (cond - uncond)      where the model ran both branches
//     denoised = clamp(DENOISED_X * x + DENOISED_MODEL * model, -CLIP, CLIP)
//     x', kept'_0, .. = M (x, model, kept_0, kept_1, kept_2, noise, denoised)    M: four rows of factors
// Bindings: x f32 [b, h, w, c] (changed), model [b or 2 b, h, w, c] (the uncond branch first), steps f32
// [n, words], state u32, history f32 [kept b, h, w, c] (changed), noise f32 [k b, h, w, c] (step n takes the
// n modulo k-th), shown f32 [b, h, w, c] (written: denoised, for a preview). One invocation four
// channels.

{{ state_words }}
{% macro combined(row) %}
{% set f = row * factors %}
fma(vec4<f32>(steps[at + {{ f }}u]), old, steps[at + {{ f + 1 }}u] * model_out)
{%- for k in range(kept) %} + steps[at + {{ f + 2 + k }}u] * kept_{{ k }}{% endfor %}
{%- if has_noise %} + steps[at + {{ f + 5 }}u] * random{% endif %} + steps[at + {{ f + 6 }}u] * denoised
{%- endmacro %}
@compute @workgroup_size({{ size }})
fn main(@builtin(workgroup_id) id: vec3<u32>, @builtin(local_invocation_index) index: u32) {
    let i = (id.x + id.y * {{ grid_x }}u) * {{ size }}u + index;
    if (i >= {{ vectors }}u) {
        return;
    }
    let step = min(state[STEP], {{ steps - 1 }}u);
    let at = step * {{ step_words }}u;
    let row = i / {{ slices }}u;
    let s = i % {{ slices }}u;
    let old = x_at(row, s);
{% if guided %}
    let uncond = model_at(row, s);
    let model_out = fma(vec4<f32>(steps[at + GUIDANCE]), model_at(row + {{ rows }}u, s) - uncond, uncond);
{% else %}
    let model_out = model_at(row, s);
{% endif %}
{% for k in range(kept) %}
    let kept_{{ k }} = history_at(row + {{ k * rows }}u, s);
{% endfor %}
{% if has_noise %}
    let random = noise_at(row + step % {{ noises }}u * {{ rows }}u, s);
{% endif %}
    let clean = fma(vec4<f32>(steps[at + DENOISED_X]), old, steps[at + DENOISED_MODEL] * model_out);
    let denoised = clamp(clean, vec4<f32>(-steps[at + CLIP]), vec4<f32>(steps[at + CLIP]));
{% if has_shown %}
    shown_put(row, s, denoised);
{% endif %}
    x_put(row, s, {{ combined(0) }});
{% for k in range(kept) %}
    history_put(row + {{ k * rows }}u, s, {{ combined(k + 1) }});
{% endfor %}
}
