package networktest

// Small has what platforms treat differently: a residual Add, a Concat, pooling, a classifier. It is a text for graphtest.Parse.
const Small = `
graph small
opset 17
input x: f32[1,3,8,8]
const w1: f32[16,3,3,3] = normal(seed=1, std=0.3)
const b1: f32[16] = normal(seed=2)
const w2: f32[16,16,3,3] = normal(seed=3, std=0.1)
const b2: f32[16] = normal(seed=4, std=0.1)
const w3: f32[10,2048] = normal(seed=5, std=0.05)
const b3: f32[10] = normal(seed=6)
c1 = Conv(x, w1, b1) {pads=[1, 1, 1, 1]} "conv1"
r1 = Relu(c1) "relu1"
c2 = Conv(r1, w2, b2) {pads=[1, 1, 1, 1]} "conv2"
a = Add(r1, c2) "add"
r2 = Relu(a) "relu2"
p = MaxPool(r2) {kernel_shape=[3, 3], pads=[1, 1, 1, 1]} "max"
cat = Concat(p, r1) {axis=1} "concat"
f = Flatten(cat) "flatten"
y = Gemm(f, w3, b3) {transB=1} "gemm"
output y: f32[1,10]
`
