// Writes the logits of a file of InferLLM behind each token, with the program's own graph: inferllm FILE IDS... In its folder:
//   cmake -B build -DCMAKE_BUILD_TYPE=Release && make -C build InferLLM
//   g++ -std=c++11 -O2 -w -pthread -DINFER_X86=1 -Iinclude -Isrc THIS build/libInferLLM.a -o inferllm
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "core/model_imp.h"

using namespace inferllm;

int main(int n, char** v) {
    UserConfig user;
    user.compt_type = DType::Float32;
    CPUDevice device(KernelType::X86, 1);
    auto graph = Graph::make_graph(user, &device, "llama2");
    auto vocab = std::make_shared<Vocab>();
    LlmParams param;
    param.n_ctx = 512;
    graph->load(std::make_shared<InputFile>(v[1], false), param, vocab);
    std::vector<float> logits(vocab->id_to_token.size());
    for (int i = 2; i < n; i++) {
        graph->execute({atoi(v[i])}, logits, i - 2, false);
        fwrite(logits.data(), sizeof(float), logits.size(), stdout);
    }
}
