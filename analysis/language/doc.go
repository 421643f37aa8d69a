// Package language measures language models: how well they predict texts (Eval), and what quantizing one matrix at a time changes
// (RankMatrices).
//
// Unstable: it may change without notice.
package language
