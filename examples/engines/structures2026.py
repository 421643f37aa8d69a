"""Networks as they are exported in 2026: true structures of transformers, timm and ultralytics with small widths and random weights.

Each entry of STRUCTURES makes (module, samples, names of outputs): samples(n, of) are n dictionaries of inputs. Weights are drawn with deviation
1/sqrt(inputs) from a fixed seed, so that every layer has a signal; of libraries' own 0.02 little but the norms' constants would reach the outputs.
"""
import os
import numpy as np, torch
from torch import nn

SIZE = 96


def drawn(module, seed=0):
    g = torch.Generator().manual_seed(seed)
    for name, p in module.named_parameters():
        with torch.no_grad():
            if p.dim() > 1: p.copy_(torch.randn(p.shape, generator=g) / max(p[0].numel(), 1) ** 0.5)
            elif name.endswith("bias"): p.copy_(torch.randn(p.shape, generator=g) * 0.1)
            else: p.copy_(p + torch.randn(p.shape, generator=g) * 0.1)
    for m in module.modules():
        if isinstance(m, nn.Embedding): m.weight.data.copy_(torch.randn(m.weight.shape, generator=g))
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.copy_(torch.randn(m.running_mean.shape, generator=g) * 0.1)
            m.running_var.copy_(torch.rand(m.running_var.shape, generator=g) + 0.5)
    return module.eval()


def eager(module):
    """The exporter of torch 2.15 stumbles over some forms of its fused attention ("Cannot view a tensor"); written out it goes, and optimum does so too."""
    module.set_attn_implementation("eager")
    return module


class Call(nn.Module):
    """Positional tensors in, the named outputs out."""
    def __init__(self, module, run):
        super().__init__()
        self.module, self.run = module, run
    def forward(self, *x): return self.run(self.module, *x)


def pictures(data, size=SIZE, name="pixels"):
    from PIL import Image
    import glob
    def make(n, of):
        files = sorted(glob.glob(os.path.join(data, "data/pets", ("calibration", "eval")[of], "**/*.jpg"), recursive=True))[:n]
        return [{name: ((np.float32(Image.open(f).convert("RGB").resize((size, size))) / 255 - 0.5) / 0.25).transpose(2, 0, 1)[None]} for f in files]
    return make


def ids(vocabulary, length, mask=False, name="input_ids"):
    def make(n, of):
        r = np.random.default_rng(1 + of)
        out = []
        for _ in range(n):
            x = {name: np.minimum(r.geometric(8 / vocabulary, (1, length)), vocabulary - 1).astype(np.int64)}
            if mask: x["attention_mask"] = (np.arange(length) < r.integers(length // 2, length + 1)).astype(np.int64)[None]
            out.append(x)
        return out
    return make


def speech(data):
    import wave
    with wave.open(os.path.join(data, "data/speech/silero_test.wav")) as w: return np.float32(np.frombuffer(w.readframes(-1), "<i2")) / 32768


def waves(data, length, name="input_values"):
    x = speech(data)
    def make(n, of):  # calibration hears the first half
        half = x[of * len(x) // 2:(of + 1) * len(x) // 2]
        pieces = [p for p in (half[i:i + length] for i in np.linspace(0, len(half) - length, 2 * n).astype(int)) if p.std() > 0.01]
        pieces = [pieces[i] for i in np.linspace(0, len(pieces) - 1, n).astype(int)]
        return [{name: ((p - p.mean()) / p.std())[None]} for p in pieces]
    return make


def mels(data, bands, frames, name="input_features", turned=False):
    def make(n, of):
        out = []
        for s in waves(data, frames * 160 + 240, name)(n, of):
            w = np.lib.stride_tricks.sliding_window_view(s[name][0], 400)[::160][:frames] * np.hanning(401)[:400]
            p = np.abs(np.fft.rfft(w, 512)) ** 2
            edges = np.linspace(0, 2595 * np.log10(1 + 8000 / 700), bands + 2)
            f = 2595 * np.log10(1 + np.arange(257) * 31.25 / 700)[:, None]
            bank = np.maximum(0, np.minimum((f - edges[:-2]) / (edges[1:-1] - edges[:-2]), (edges[2:] - f) / (edges[2:] - edges[1:-1])))
            l = np.log10(np.maximum(p @ bank, 1e-10))
            l = (np.maximum(l, l.max() - 8) + 4) / 4
            out.append({name: np.float32(l if turned else l.T)[None]})
        return out
    return make


def both(*makers):
    def make(n, of):
        parts = [m(n, of) for m in makers]
        return [{k: v for p in row for k, v in p.items()} for row in zip(*parts)]
    return make


def seen(makers, extra):
    """Samples of a part that reads what other parts of the network write: extra(sample) -> inputs."""
    def make(n, of):
        with torch.no_grad(): return [extra({k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in s.items()}) for s in makers(n, of)]
    return make


def timm_model(data, name, **options):
    import timm
    return drawn(timm.create_model(name, pretrained=False, **options)), pictures(data), ["logits"]


def vit(d): return timm_model(d, "vit_tiny_patch16_224", img_size=SIZE, embed_dim=96, depth=4, num_heads=3, num_classes=50)
def deit(d): return timm_model(d, "deit_tiny_distilled_patch16_224", img_size=SIZE, embed_dim=96, depth=4, num_heads=3, num_classes=50)
def swin(d): return timm_model(d, "swin_tiny_patch4_window7_224", img_size=SIZE, embed_dim=32, depths=(2, 2, 2), num_heads=(1, 2, 4), window_size=6, num_classes=50)
def convnext2(d): return timm_model(d, "convnextv2_atto", dims=(32, 48, 64, 96), depths=(2, 2, 2, 2), num_classes=50)
def eva02(d): return timm_model(d, "eva02_tiny_patch14_224", img_size=SIZE, patch_size=16, embed_dim=96, depth=3, num_heads=3, num_classes=50)
def mobilevit(d): return timm_model(d, "mobilevit_xxs", num_classes=50)
def efficientvit(d): return timm_model(d, "efficientvit_b0", num_classes=50)
def mobilenet4(d): return timm_model(d, "mobilenetv4_conv_small_050", num_classes=50)


def detr(d):
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig
    c = DetrConfig(backbone_config=ResNetConfig(embedding_size=16, hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], layer_type="basic", out_features=["stage4"]),
                   use_timm_backbone=False, backbone=None, use_pretrained_backbone=False, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                   decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, num_queries=20, num_labels=20)
    def run(m, x):
        o = m(x)
        return o.logits, o.pred_boxes
    return Call(drawn(DetrForObjectDetection(c)), run), pictures(d), ["logits", "boxes"]


def yolo(d, kind):
    from ultralytics.nn.tasks import DetectionModel
    m = DetectionModel(kind + ".yaml", nc=20, verbose=False)
    for x in m.modules():
        if hasattr(x, "export"): x.export, x.format = True, "onnx"
    m = drawn(m)
    head = m.model[-1]
    head.dfl.conv.weight.data[:] = torch.arange(16, dtype=torch.float32).view(1, 16, 1, 1)
    head.bias_init()
    return m.fuse(verbose=False), pictures(d), ["detections"]


def yolo8(d): return yolo(d, "yolov8n")
def yolo11(d): return yolo(d, "yolo11n")
def yolo12(d): return yolo(d, "yolo12n")


def sam(d):
    from transformers import SamConfig, SamModel, SamVisionConfig, SamMaskDecoderConfig, SamPromptEncoderConfig
    v = SamVisionConfig(hidden_size=64, num_hidden_layers=4, num_attention_heads=4, image_size=SIZE, patch_size=8, output_channels=32, global_attn_indexes=[1, 3],
                        window_size=5, mlp_dim=128, num_pos_feats=16)
    p = SamPromptEncoderConfig(hidden_size=32, image_size=SIZE, patch_size=8, mask_input_channels=8)
    from transformers.models.sam.modeling_sam import SamVisionAttention
    m = eager(drawn(SamModel(SamConfig(vision_config=v, prompt_encoder_config=p,
                                    mask_decoder_config=SamMaskDecoderConfig(hidden_size=32, mlp_dim=64, num_attention_heads=4, iou_head_hidden_dim=32)))))
    for layer in m.vision_encoder.layers: layer.attn.__class__ = SamVisionAttention
    return m


def sam_encoder(d):
    return Call(sam(d), lambda m, x: m.vision_encoder(x).last_hidden_state), pictures(d), ["embeddings"]


def sam_decoder(d):
    m = sam(d)
    def run(m, e, points):
        o = m(image_embeddings=e, input_points=points, multimask_output=True)
        return o.pred_masks, o.iou_scores
    def extra(s):
        seed = int(abs(s["pixels"].sum()) * 100) % 1000
        p = np.random.default_rng(seed).uniform(0, SIZE, (1, 1, 2, 2)).astype(np.float32)
        return {"embeddings": m.vision_encoder(s["pixels"]).last_hidden_state.numpy(), "points": p}
    return Call(m, run), seen(pictures(d), extra), ["masks", "scores"]


def whisper(d):
    from transformers import WhisperConfig, WhisperForConditionalGeneration
    c = WhisperConfig(vocab_size=200, num_mel_bins=40, d_model=64, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
                      encoder_ffn_dim=128, decoder_ffn_dim=128, max_source_positions=100, max_target_positions=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                      decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None)
    return drawn(WhisperForConditionalGeneration(c))


def whisper_encoder(d):
    return Call(whisper(d), lambda m, x: m.model.encoder(x).last_hidden_state), mels(d, 40, 200), ["hidden"]


PAST = 12


def cached(module, features, encode, layers, vocabulary):
    """A step of a decoder: tokens and the caches in, logits and the longer caches of its own attention out."""
    from transformers import DynamicCache, EncoderDecoderCache
    from transformers.models.moonshine.modeling_moonshine import MoonshineEncoderModelOutput as Output
    n = layers
    def run(m, token, hidden, *past):
        own, other = DynamicCache(), DynamicCache()
        for l in range(n):
            own.update(past[4 * l], past[4 * l + 1], l)
            other.update(past[4 * l + 2], past[4 * l + 3], l)
        cache = EncoderDecoderCache(own, other)
        for l in range(n): cache.is_updated[l] = True
        o = m(decoder_input_ids=token, encoder_outputs=Output(last_hidden_state=hidden), past_key_values=cache, use_cache=True)
        s = cache.self_attention_cache
        return (o.logits,) + tuple(t for l in range(n) for t in (s.layers[l].keys, s.layers[l].values))
    def extra(s):
        hidden = encode(module, next(iter(s.values())))
        r = np.random.default_rng(int(abs(hidden.sum()) * 1000) % 10000)
        tokens = torch.from_numpy(r.integers(0, vocabulary, (1, PAST + 1)))
        o = module(decoder_input_ids=tokens[:, :PAST], encoder_outputs=Output(last_hidden_state=hidden), use_cache=True).past_key_values
        x = {"token": tokens[:, PAST:].numpy(), "hidden": hidden.numpy()}
        for l in range(n):
            a, b = o.self_attention_cache.layers[l], o.cross_attention_cache.layers[l]
            x |= {f"past.{l}.key": a.keys.numpy(), f"past.{l}.value": a.values.numpy(), f"cross.{l}.key": b.keys.numpy(), f"cross.{l}.value": b.values.numpy()}
        return x
    names = ["logits"] + [f"present.{l}.{k}" for l in range(n) for k in ("key", "value")]
    return Call(module, run), seen(features, extra), names


def whisper_decoder(d):
    return cached(whisper(d), mels(d, 40, 200), lambda m, x: m.model.encoder(x).last_hidden_state, 2, 200)


def moonshine(d):
    from transformers import MoonshineConfig, MoonshineForConditionalGeneration
    c = MoonshineConfig(vocab_size=200, hidden_size=72, intermediate_size=144, encoder_num_hidden_layers=2, decoder_num_hidden_layers=2, encoder_num_attention_heads=4,
                        decoder_num_attention_heads=4, encoder_num_key_value_heads=4, decoder_num_key_value_heads=4, max_position_embeddings=64)
    return drawn(MoonshineForConditionalGeneration(c))


def moonshine_encoder(d):
    return Call(moonshine(d), lambda m, x: m.model.encoder(x).last_hidden_state), waves(d, 16000), ["hidden"]


def moonshine_decoder(d):
    return cached(moonshine(d), waves(d, 16000), lambda m, x: m.model.encoder(x).last_hidden_state, 2, 200)


def conformer(d):
    from transformers import ParakeetEncoder, ParakeetEncoderConfig
    c = ParakeetEncoderConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, num_mel_bins=40, subsampling_conv_channels=32, conv_kernel_size=9)
    return Call(eager(drawn(ParakeetEncoder(c))), lambda m, x: m(x).last_hidden_state), mels(d, 40, 200, turned=True), ["hidden"]


def conformer_relative(d):
    from transformers import Wav2Vec2ConformerConfig, Wav2Vec2ConformerModel
    c = Wav2Vec2ConformerConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, conv_dim=(32, 32, 32, 32), conv_stride=(5, 4, 4, 2),
                                conv_kernel=(10, 8, 8, 4), num_conv_pos_embedding_groups=4, num_feat_extract_layers=4, feat_extract_norm="layer", conv_depthwise_kernel_size=9,
                                position_embeddings_type="relative", max_source_positions=128)
    return Call(eager(drawn(Wav2Vec2ConformerModel(c))), lambda m, x: m(x).last_hidden_state), waves(d, 16000), ["hidden"]


def t5_network(d):
    from transformers import T5Config, T5ForConditionalGeneration
    c = T5Config(vocab_size=300, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_decoder_layers=2, num_heads=4, feed_forward_proj="gated-gelu", tie_word_embeddings=False,
                 decoder_start_token_id=0)
    return eager(drawn(T5ForConditionalGeneration(c)))


def t5(d):
    def run(m, x, mask, y): return m(input_ids=x, attention_mask=mask, decoder_input_ids=y, use_cache=False).logits
    return Call(t5_network(d), run), both(ids(300, 24, True), ids(300, 12, name="decoder_input_ids")), ["logits"]


def clip(d):
    from transformers import CLIPConfig, CLIPModel, CLIPTextConfig, CLIPVisionConfig
    t = CLIPTextConfig(vocab_size=300, hidden_size=64, intermediate_size=128, projection_dim=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=24,
                       eos_token_id=299, bos_token_id=298, pad_token_id=1)
    v = CLIPVisionConfig(hidden_size=64, intermediate_size=128, projection_dim=48, num_hidden_layers=2, num_attention_heads=4, image_size=SIZE, patch_size=16)
    c = CLIPConfig(text_config=t.to_dict(), vision_config=v.to_dict(), projection_dim=48)
    def run(m, x, y, mask):
        o = m(input_ids=y, pixel_values=x, attention_mask=mask)
        return o.image_embeds, o.text_embeds
    return Call(drawn(CLIPModel(c)), run), both(pictures(d), ids(300, 24, True)), ["image", "text"]


def siglip(d):
    from transformers import SiglipVisionConfig, SiglipVisionModel
    c = SiglipVisionConfig(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, image_size=SIZE, patch_size=16)
    return Call(drawn(SiglipVisionModel(c)), lambda m, x: m(pixel_values=x).pooler_output), pictures(d), ["pooled"]


def bert(d):
    from transformers import BertConfig, BertModel
    c = BertConfig(vocab_size=400, hidden_size=96, num_hidden_layers=3, num_attention_heads=6, intermediate_size=192, max_position_embeddings=48)
    def run(m, x, mask):
        h, w = m(input_ids=x, attention_mask=mask).last_hidden_state, mask.unsqueeze(-1).float()
        return nn.functional.normalize((h * w).sum(1) / w.sum(1).clamp(min=1e-9), dim=1)
    return Call(drawn(BertModel(c)), run), ids(400, 32, True), ["sentence"]


def modernbert(d):
    from transformers import ModernBertConfig, ModernBertModel
    c = ModernBertConfig(vocab_size=400, hidden_size=96, intermediate_size=144, num_hidden_layers=4, num_attention_heads=6, max_position_embeddings=64, local_attention=16,
                         pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
    return Call(drawn(ModernBertModel(c)), lambda m, x, mask: m(input_ids=x, attention_mask=mask).last_hidden_state), ids(400, 32, True), ["hidden"]


def qwen3(d):
    from transformers import DynamicCache, Qwen3Config, Qwen3ForCausalLM
    c = Qwen3Config(vocab_size=300, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
                    max_position_embeddings=64, tie_word_embeddings=False)
    m, n = drawn(Qwen3ForCausalLM(c)), 2
    def run(m, tokens, *past):
        cache = DynamicCache()
        for l in range(n): cache.update(past[2 * l], past[2 * l + 1], l)
        o = m(input_ids=tokens, past_key_values=cache, use_cache=True)
        return (o.logits,) + tuple(t for l in range(n) for t in (cache.layers[l].keys, cache.layers[l].values))
    def extra(s):
        t = s["input_ids"]
        past = m(input_ids=t[:, :PAST], use_cache=True).past_key_values
        x = {"tokens": t[:, PAST:].numpy()}
        for l in range(n): x |= {f"past.{l}.key": past.layers[l].keys.numpy(), f"past.{l}.value": past.layers[l].values.numpy()}
        return x
    return Call(m, run), seen(ids(300, PAST + 8), extra), ["logits"] + [f"present.{l}.{k}" for l in range(n) for k in ("key", "value")]


# name: maker, opset, exporter
STRUCTURES = {
    "vit": (vit, 18), "deit": (deit, 20), "swin": (swin, 18), "convnext2": (convnext2, 21), "eva02": (eva02, 20), "mobilevit": (mobilevit, 18), "efficientvit": (efficientvit, 18),
    "mobilenet4": (mobilenet4, 22), "detr": (detr, 18), "yolo8": (yolo8, 18), "yolo11": (yolo11, 20), "yolo12": (yolo12, 22), "sam_encoder": (sam_encoder, 18),
    "sam_decoder": (sam_decoder, 18), "whisper_encoder": (whisper_encoder, 20), "whisper_decoder": (whisper_decoder, 18), "moonshine_encoder": (moonshine_encoder, 21),
    "moonshine_decoder": (moonshine_decoder, 18), "conformer": (conformer, 18), "conformer_relative": (conformer_relative, 20), "t5": (t5, 18), "clip": (clip, 20),
    "siglip": (siglip, 22), "bert": (bert, 18), "modernbert": (modernbert, 20), "qwen3": (qwen3, 22),
    "vit_old": (vit, -17), "swin_old": (swin, -17), "detr_old": (detr, -17), "yolo8_old": (yolo8, -17), "bert_old": (bert, -14), "clip_old": (clip, -17),
}


def make(name, data, folder, calibration, unseen):
    """Writes NAME.onnx and the samples beside it, and says what the exporter could not."""
    maker, opset = STRUCTURES[name]
    torch.manual_seed(0)
    module, samples, outputs = maker(data)
    first = samples(1, 0)[0]
    args = tuple(torch.from_numpy(np.ascontiguousarray(v)) for v in first.values())
    with torch.no_grad(): module(*args)
    torch.onnx.export(module, args, os.path.join(folder, name + ".onnx"), input_names=list(first), output_names=outputs, opset_version=abs(opset), dynamo=opset > 0,
                      external_data=False, verbose=False)
    for of, n in enumerate((calibration, unseen)):
        at = os.path.join(folder, name, ("calibration", "unseen")[of])
        os.makedirs(at, exist_ok=True)
        for k, s in enumerate(samples(n, of)): np.savez(os.path.join(at, f"{k:02}.npz"), **{i: np.ascontiguousarray(v) for i, v in s.items()})


if __name__ == "__main__":
    import logging, sys, traceback, warnings
    warnings.simplefilter("ignore"); logging.disable(logging.ERROR)
    data, folder, only = sys.argv[1:4] if len(sys.argv) > 3 else (*sys.argv[1:3], "")
    for name in only.split(",") if only else STRUCTURES:
        if os.path.exists(os.path.join(folder, name + ".onnx")): continue
        try:
            make(name, data, folder, 24, 8)
            print(name, "made", flush=True)
        except Exception as e:
            print(name, "FAILED", type(e).__name__, str(e)[:300], flush=True)
            if os.environ.get("TRACE"): traceback.print_exc()
