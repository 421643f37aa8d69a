// The functions of float.cuh, compiled for the host: reads cases of function, x, a and b and writes a float for each.
#include <cstdio>

#include "../src/float.cuh"

struct Case {
  s32 function;
  f32 x, a, b;
};

int main() {
  Case k;
  while (fread(&k, sizeof k, 1, stdin) == 1) {
    const f32 y = unary(k.function, k.x, k.a, k.b);
    if (fwrite(&y, sizeof y, 1, stdout) != 1) return 1;
  }
  return 0;
}
