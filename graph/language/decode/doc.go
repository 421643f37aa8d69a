// Package decode runs language models token by token: tokenizers, the key-value cache, the forward pass on float or quantized weights,
// generation, and the likelihood of texts.
//
// Unstable: it may change without notice.
package decode
