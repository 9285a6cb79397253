// What the three kernels of the sampler share: its constants, finite and penalised logits, and sums
// and maxima over a workgroup. The vocabulary is cut into SEGMENTS of LENGTH ids, a workgroup each.

{{ param_words }}
const VOCABULARY: u32 = {{ vocabulary }}u;
const SEGMENTS: u32 = {{ segments }}u;
const LENGTH: u32 = {{ length }}u;
const SIZE: u32 = {{ size }}u;
const LOWEST: f32 = -3.4028234e38;

fn setting(word: u32) -> f32 {
    return bitcast<f32>(params[word]);
}
{% macro tree(name, type, zero, combine) %}

var<workgroup> {{ name }}_of: array<{{ type }}, {{ size }}>;

fn {{ name }}(value: {{ type }}, index: u32) -> {{ type }} {
    {{ name }}_of[index] = value;
    workgroupBarrier();
{% set step = namespace(size=size // 2) %}
{% for _ in range(10) if step.size %}
    if (index < {{ step.size }}u) {
        let a = {{ name }}_of[index];
        let b = {{ name }}_of[index + {{ step.size }}u];
        {{ name }}_of[index] = {{ combine }};
    }
    workgroupBarrier();
{% set step.size = step.size // 2 %}
{% endfor %}
    let result = {{ name }}_of[0];
    workgroupBarrier();
    return result;
}
{% endmacro %}
{% macro penalised() %}

// NaN (the bits of an infinity and more) counts as the lowest.
fn finite(value: f32) -> f32 {
    let bits = bitcast<u32>(value);
    let infinite = (bits & 0x7f800000u) == 0x7f800000u;
    return select(value, select(LOWEST, -LOWEST, bits == 0x7f800000u), infinite);
}

fn penalised(id: u32, logit: f32) -> f32 {
    let count = f32(history[min(id, VOCABULARY - 1u)]);
    let repetition = setting(REPETITION);
    var value = select(logit * repetition, logit / repetition, logit > 0.0);
    value = value - count * setting(FREQUENCY) - setting(PRESENCE);
    return clamp(select(logit, value, count > 0.0), LOWEST, -LOWEST);
}

// Four logits after the penalties; ids past the end of the vocabulary get the lowest.
fn values_at(slice: u32, penalties: bool) -> vec4<f32> {
    let raw = logits_at(0u, slice);
    let id = 4u * slice;
    var v = vec4<f32>(finite(raw.x), finite(raw.y), finite(raw.z), finite(raw.w));
    if (penalties) {
        v = vec4<f32>(
            penalised(id, v.x), penalised(id + 1u, v.y), penalised(id + 2u, v.z), penalised(id + 3u, v.w)
        );
    }
    return select(vec4<f32>(LOWEST), v, vec4<u32>(id) + vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(VOCABULARY));
}

fn penalties_on() -> bool {
    return setting(REPETITION) != 1.0 || setting(PRESENCE) != 0.0 || setting(FREQUENCY) != 0.0;
}
{% endmacro %}
