"""Operators as texts and values mean them."""

import pytest

from kerncast.errors import InputError, MissingEvidenceError
from kerncast.operators import KINDS, Family, kind_named, parse_operator


def test_the_documented_operator_is_read() -> None:
    found = parse_operator("bmm(B=64,M=512,N=512,K=64,dtype=bf16)")
    assert (found.kind.name, found.sizes, found.dtype.name) == ("bmm", (64, 512, 512, 64), "bf16")
    assert found.text == "bmm(B=64, M=512, N=512, K=64, dtype=bf16)"


def test_text_and_operator_are_the_same() -> None:
    for text in (
        "softmax(B=7, H=32, dtype=fp32)",
        "generation_attention(B=4, S=1023, H=32, KV=8, dtype=bf16, cache=fp8)",
        "moe(T=16, H=4096, F=2048, topk=8, E=128, routing=120, dtype=bf16, library=vllm)",
    ):
        assert parse_operator(text).text == text


@pytest.mark.parametrize(
    ("names", "short"),
    [
        ("generation_attention(batch_size=4,step=1023,num_heads=32,num_key_value_heads=8,dtype=bfloat16/fp8)",
         "decode(B=4,S=1023,H=32,KV=8,dtype=bf16,cache=fp8)"),
        ("context_attention(batch_size=2,isl=64,num_heads=8,head_dim=64,window_size=32)",
         "attention(B=2,S=64,H=8,D=64,W=32)"),
        ("moe(num_tokens=16,hidden_size=64,inter_size=32,topk=2,num_experts=8,distribution=power_law_1.2)",
         "moe(t=16,h=64,f=32,topk=2,e=8,routing=120)"),
        ("gemm(m=1.0,n=2,k=3)", "mm(M=1,N=2,K=3)"),
        ("layernorm(B=1,H=2)", "ln(B=1,H=2)"),
    ],
)  # fmt: skip
def test_names_of_data_sets_and_short_names_mean_the_same(names: str, short: str) -> None:
    assert parse_operator(names).text == parse_operator(short).text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bmm", "is not an operator"),
        ("bmm(B=1,M=2,N=3)", "needs K"),
        ("bmm(B=1,M=2,N=3,K=0)", "K is 0"),
        ("bmm(B=1,M=2,N=3,K=1.5)", "K is 1.5"),
        ("bmm(B=1,M=2,N=3,K=nan)", "K is 'nan'"),
        ("bmm(B=1,M=2,N=3,K=inf)", "K is 'inf'"),
        ("bmm(B=1,M=2,N=3,K=4,K=5)", "is given twice"),
        ("bmm(B=1,M=2,N=3,K=4,Z=5)", "has no z"),
        ("bmm(B=1,M=2,N=3,K)", "is not NAME=VALUE"),
        ("bmm(B=1,M=2,N=3,K=1e99)", "K is 1e99"),
        ("softmax(B=1,H=2,count=0)", "count is '0'"),
        ("softmax(B=1,H=2,count=inf)", "count is 'inf'"),
        ("moe(T=1,H=1,F=1,topk=1,E=1,routing=1.5)", "routing is 1.5"),
        ("moe(T=1,H=1,F=1,topk=1,E=1,routing=nan)", "routing is 'nan'"),
        ("moe(T=1,H=1,F=1,topk=2,E=1)", "topk is 2 and E is 1"),
        ("moe(T=1,H=1,F=1,topk=1,E=4,ep=8)", "ep is 8 and E is 4"),
        ("decode(B=1,S=1,H=4,KV=8)", "H is 4 and KV is 8"),
        ("attention(B=1,S=1,H=12,KV=8)", "H is 12 and KV is 8"),
        ("gemm(M=1,N=2,K=3,cache=fp8)", "gemm has no cache, but a cache in fp8 is given"),
        ("gemm(M=1,N=2,K=3,dtype=bf16/fp8)", "gemm has no cache, but dtype 'bf16/fp8' is given"),
        ("encoder_attention(B=1,S=2,H=3,dtype=bf16/bf16)", "encoder_attention has no cache"),
        ("decode(B=1,S=2,H=3,dtype=bf16/fp8,cache=bf16)", "two formats of its cache"),
        ("decode(B=1,S=2,H=3,step=2)", "s and step of generation_attention mean the same"),
        ("attention(B=1,S=2,H=3,step=many)", "step is 'many'"),
        ("attention(B=1,S=2,H=3,beam_width=-1)", "beam_width is '-1'"),
        ("gemm(M=1,N=2,K=3,beam_width=1)", "gemm has no beam_width"),
        ("x" * 1000, "is not an operator"),
    ],
)
def test_faulty_texts_are_refused_with_a_cure(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("(", r"\(")) as caught:
        parse_operator(text)
    assert caught.value.cure


@pytest.mark.parametrize(
    "text",
    [
        "conv2d(B=1,H=2)",
        "softmax(B=1,H=2,dtype=fp8)",
        "decode(B=1,S=1,H=1,cache=fp32)",
        "bmm(B=1,M=1,N=1,K=1,dtype=int8)",
        "gemm(M=1,N=1,K=1,dtype=nvfp4)",
        "decode(B=1,S=1,H=1,cache=fp3)",
        "moe(T=1,H=1,F=1,topk=1,E=1,routing=zipf)",
        "moe(T=1,H=1,F=1,topk=1,E=1,routing=power_law_0.8)",
        "attention(B=1,S=1,H=1,step=1)",
        "encoder_attention(B=1,S=1,H=1,step=64)",
        "attention(B=1,S=1,H=1,beam_width=2)",
        "decode(B=1,S=1,H=1,beam_width=4)",
        "gemm(M=1,N=1,K=1,library=onednn)",
    ],
)
def test_what_no_data_cover_is_refused_by_name(text: str) -> None:
    with pytest.raises(MissingEvidenceError, match="no measured data cover"):
        parse_operator(text)


def test_what_was_measured_of_attention_passes() -> None:
    for more in ("", ",step=0", ",beam_width=1", ",step=0.0,beam_width=0", ",step="):
        assert parse_operator(f"attention(B=1,S=2,H=3{more})").text == parse_operator("attention(B=1,S=2,H=3)").text
    assert parse_operator("decode(B=1,step=9,H=3,beam_width=1)").sizes[1] == 9


def test_an_unknown_library_is_told_the_known_ones_and_a_kernel_is_free() -> None:
    with pytest.raises(MissingEvidenceError, match="library 'TensorRT'") as caught:
        parse_operator("gemm(M=1,N=1,K=1,library=TensorRT)")
    assert "trtllm, vllm, sglang" in str(caught.value)
    found = parse_operator("gemm(M=1,N=1,K=1,library=VLLM,kernel=My_Kernel)")
    assert (found.library, found.kernel) == ("vllm", "my_kernel")


def test_an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        parse_operator("attention(B=1,S=1,H=1,Z=1)")
    assert caught.value.cure == (
        "Known: B, S, H, KV, D, W, dtype, cache, library, kernel, count, label, step, beam_width."
    )


def test_sizes_of_a_kind_have_names_of_their_own() -> None:
    for kind in KINDS.values():
        names = [name.lower() for size in kind.sizes for name in (size.name, *size.also)]
        assert len(names) == len(set(names)), kind.name


def test_each_family_has_a_kind() -> None:
    assert {kind.family for kind in KINDS.values()} == set(Family)
    assert kind_named("Swish") is KINDS["silu"]
