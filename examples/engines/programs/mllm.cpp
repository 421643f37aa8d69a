// Writes the logits of a file of mllm version 1 behind each token, by the program's own model of TinyLlama, which is told the shape:
// mllm FILE DIM HIDDEN LAYERS HEADS KV_HEADS VOCAB IDS... In its folder (branch v1, googletest left out of CMakeLists.txt):
//   cmake -B build -DCMAKE_BUILD_TYPE=Release -DOPENCL=OFF -DQUANT=OFF && make -C build mllm_cpu mllm_llm
//   g++ -std=c++17 -O2 -w -DFMT_HEADER_ONLY -mf16c -mavx2 -fopenmp -Imllm -Ithird_party -Ithird_party/fmt/include THIS \
//       $(find build/mllm build/examples -name '*.o') -lpthread -ldl -o mllm
#include <cstdio>

#include "models/tinyllama/modeling_tinyllama.hpp"
#include "tokenizers/Tokenizer.hpp"

using namespace mllm;

int main(int n, char** v) {
    CPUBackend::cpu_threads = 1;
    Module::initBackend(MLLM_CPU);
    TinyLLaMAConfig c(512, "1.1B", HFHUBROPE, atoi(v[7]));
    c.hidden_dim = atoi(v[2]), c.ffn_hidden = atoi(v[3]), c.block_num = atoi(v[4]), c.head_size = atoi(v[5]), c.kv_head_size = atoi(v[6]);
    TinyLLaMAModel model(c);
    model.load(v[1]);
    vector<unsigned> ids;
    for (int i = 8; i < n; i++) ids.push_back(atoi(v[i]));
    auto input = Tokenizer::tokens2Input(ids);
    auto out = model({input})[0];
    for (int s = 0; s < out.sequence(); s++)
        for (int d = 0; d < out.dimension(); d++) {
            float x = out.dataAt<float>(0, 0, s, d);
            fwrite(&x, sizeof x, 1, stdout);
        }
}
