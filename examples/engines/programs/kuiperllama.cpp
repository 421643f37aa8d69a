// Writes the logits of an int8 file of KuiperLLama behind each token: kuiperllama FILE TOKENIZER.model IDS... Loader, layers and CPU kernels
// are the program's own. It multiplies int8 on CUDA alone: here that product is the sum of its kernel (op/kernels/cuda/matmul_kernel.cu).
// The tokenizer is one that SentencePiece opens; ids are given here. In its folder (glog, Armadillo and SentencePiece installed):
//   sed -i '/kDeviceCPU && is_quant_model_/,+2d' kuiper/source/model/llama3.cpp
//   sed -i 's/get_matmul_kernel_quant8(base::DeviceType device_type) {/& return matmul_kernel_cu_qint8;/' \
//       kuiper/source/op/kernels/kernels_interfaces.cpp
//   mkdir shim; for f in cuda_runtime_api cuda_runtime cuda_device_runtime_api cublas_v2 driver_types; do ln -s THE/cuda.h shim/$f.h; done
//   g++ -std=c++17 -O2 -w -Ishim -Ikuiper/include THIS $(ls kuiper/source/{tensor,base,op,model,sampler,op/kernels,op/kernels/cpu}/*.cpp \
//       | grep -v 'qwen2\|unicode') -lsentencepiece -lglog -larmadillo -lpthread -o kuiperllama
#include <glog/logging.h>

#include <cstdio>

#include "model/llama3.h"

#define NO_CUDA { LOG(FATAL) << "there is no CUDA"; }

namespace kernel {
using tensor::Tensor;
void add_kernel_cu(const Tensor&, const Tensor&, const Tensor&, void*) NO_CUDA
size_t argmax_kernel_cu(const float*, size_t, void*) NO_CUDA
void emb_kernel_cu(const Tensor&, const Tensor&, const Tensor&, int32_t, void*) NO_CUDA
void matmul_kernel_cu(const Tensor&, const Tensor&, const Tensor&, float, const CudaConfig*) NO_CUDA
void mha_kernel_cu(int32_t, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                   const Tensor&, base::DeviceType, CudaConfig*) NO_CUDA
void rmsnorm_kernel_cu(const Tensor&, const Tensor&, const Tensor&, void*) NO_CUDA
void rope_kernel_cu(int32_t, int32_t, int32_t, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, void*) NO_CUDA
void sin_cos_cache_calc_cu(int, int, const Tensor&, const Tensor&, cudaStream_t) NO_CUDA
void swiglu_kernel_cu(const Tensor&, const Tensor&, const Tensor&, void*) NO_CUDA

void matmul_kernel_cu_qint8(const Tensor& input, const Tensor& weight, const Tensor& output, int32_t group, const Tensor& scale,
                            const CudaConfig*) {
    const int rows = weight.get_dim(0), cols = weight.get_dim(1);
    const float *x = input.ptr<float>(), *s = scale.ptr<float>();
    const int8_t* w = weight.ptr<int8_t>();
    float* y = const_cast<float*>(output.ptr<float>());
    for (int r = 0, at = 0; r < rows; r++) {
        y[r] = 0;
        for (int i = 0; i < cols; i++, at++) y[r] += x[i] * s[at / group] * static_cast<float>(w[at]);
    }
}
}  // namespace kernel

int main(int n, char** v) {
    google::InitGoogleLogging(v[0]);
    FLAGS_minloglevel = 2;
    model::LLama2Model m(base::TokenizerType::kEncodeSpe, v[2], v[1], true);
    auto status = m.init(base::DeviceType::kDeviceCPU);
    if (!status) {
        fprintf(stderr, "%s\n", status.get_err_msg().c_str());
        return 1;
    }
    std::vector<int32_t> ids;
    for (int i = 3; i < n; i++) ids.push_back(atoi(v[i]));
    const auto& embedding = m.embedding(ids);
    auto position = m.get_buffer(model::ModelBufferType::kInputPos);
    for (int i = 0; i < static_cast<int>(ids.size()); i++) {
        int next = 0;
        position.index<int32_t>(0) = i;
        m.forward(m.fill_input(position, embedding, true), position, next);
        const auto& logits = m.get_buffer(model::ModelBufferType::kForwardOutput);
        fwrite(logits.ptr<float>(), sizeof(float), logits.size(), stdout);
    }
}
