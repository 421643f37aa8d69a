package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The texts are those that llama2.c's run gives: prompt and continuation, and one newline.
func TestGenerateTrained(t *testing.T) {
	for model, tokenizer := range trained(t) {
		for prompt, name := range map[string]string{"Once upon a time": "Onceuponatim", "The little dog": "Thelittledog"} {
			r := done(t, "generate", llm(t, model+".bin"), "--tokenizer", tokenizer, "--prompt", prompt, "--tokens", "200")
			assert.Equal(t, string(read(t, llm(t, "expected", model+".float."+name+".txt"))), r.stdout)
			assert.Regexp(t, `^\d+ tokens, [\d.]+ per second`, r.lastLine())
		}
	}
}

func TestGenerate(t *testing.T) {
	languagePlace(t)
	generate := func(args ...string) result {
		return done(t, append([]string{"generate", "m.bin", "--prompt", "a cab"}, args...)...)
	}
	text := func(args ...string) string { return generate(args...).stdout }
	o := generate("--json", "--tokens", "9").object(t)
	require.Subset(t, o, map[string]any{"prompt": 6., "tokens": 4.}) // of nine positions the first five give nothing new
	require.Positive(t, o["tokens_per_second"])
	require.Equal(t, text("--tokens", "9"), o["text"].(string)+"\n")

	greedy := text()
	require.True(t, strings.HasPrefix(greedy, "a cab"), greedy)
	require.Equal(t, greedy, text("--threads", "3"))
	require.Equal(t, greedy, text("--temperature", "1", "--top-k", "1", "--seed", "9"))
	drawn := text("--temperature", "1", "--seed", "2")
	require.Equal(t, drawn, text("--temperature", "1", "--seed", "2"))
	require.NotEqual(t, drawn, text("--temperature", "1", "--seed", "3"))

	require.Equal(t, "warning: the text goes in circles: 22 times the same 1 token from position 19 on\n", notes(generate()),
		"the default number of positions is nobody's mistake")
	require.Contains(t, notes(generate("--tokens", "41")), "the model was made for 40 positions")
}

func TestGeneratePrompts(t *testing.T) {
	languagePlace(t)
	require.NoError(t, os.WriteFile("p.txt", []byte("a cab\n\na cab bad\na cab\nbad\n"), 0o600))
	r := done(t, "generate", "m.bin", "--prompts", "p.txt", "--tokens", "20")
	want := ""
	var ids []any
	for _, prompt := range []string{"a cab", "a cab bad", "a cab", "bad"} {
		want += done(t, "generate", "m.bin", "--prompt", prompt, "--tokens", "20").stdout
		ids = append(ids, done(t, "generate", "m.bin", "--prompt", prompt, "--tokens", "20", "--json").object(t)["ids"])
	}
	require.Equal(t, want, r.stdout)
	require.Regexp(t, `^4 prompts of \d+ tokens, of which \d+ were shared; \d+ tokens, `, r.lastLine())
	o := done(t, "generate", "m.bin", "--prompts", "p.txt", "--tokens", "20", "--mem", "1M", "--json").object(t)
	for i, text := range o["texts"].([]any) {
		require.Equal(t, ids[i], text.(map[string]any)["ids"])
	}
	fails(t, exitUsage, `--prompt and --prompts exclude each other`, "generate", "m.bin", "--prompts", "p.txt", "--prompt", "a")
}

// notes is standard error without its last line.
func notes(r result) string {
	return strings.TrimSuffix(strings.TrimRight(r.stderr, "\n"), r.lastLine())
}

func TestGenerateRefuses(t *testing.T) {
	languagePlace(t)
	saveTokenizer(t, "short.bin", tiny.vocab-1)
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "top-k of 289 in a vocabulary of 288", []string{"--top-k", "289"}},
		{exitUsage, "top-p of 1.5", []string{"--top-p", "1.5"}},
		{exitUsage, "a temperature of -1", []string{"--temperature", "-1"}},
		{exitUsage, "--tokens 0: must be 1 or more", []string{"--tokens", "0"}},
		{exitUsage, "--group-size -4: must be 0 or more", []string{"--group-size", "-4"}},
		{exitFailed, "the prompt has 4 tokens, and --tokens allows 3", []string{"--prompt", "cab", "--tokens", "3"}},
		{exitFailed, "has 287 tokens, the vocabulary of m.bin has 288", []string{"--tokenizer", "short.bin"}},
		{exitFailed, "no-such", []string{"--tokenizer", "no-such"}},
	} {
		fails(t, c.code, c.want, append([]string{"generate", "m.bin"}, c.args...)...)
	}
	fails(t, exitFailed, "not a known checkpoint", "generate", "tokenizer.bin")
}

// canceller interrupts when so many writes have been made.
type canceller struct {
	strings.Builder
	left int
	stop func()
}

func (c *canceller) WriteString(s string) (int, error) {
	if c.left--; c.left == 0 {
		c.stop()
	}
	return c.Builder.WriteString(s)
}

// Interrupted, generate has printed whole pieces so far and the end of the line, and says that it was.
func TestGenerateInterrupted(t *testing.T) {
	languagePlace(t)
	whole := strings.TrimSuffix(done(t, "generate", "m.bin", "--prompt", "a cab").stdout, "\n")
	ctx, stop := context.WithCancel(context.Background())
	out, stderr := canceller{left: 12, stop: stop}, bytes.Buffer{}
	require.Equal(t, exitFailed, run(ctx, []string{"generate", "m.bin", "--prompt", "a cab"}, &out, &stderr))
	require.Equal(t, "qwb: interrupted\n", stderr.String())
	got, ended := strings.CutSuffix(out.String(), "\n")
	require.True(t, ended)
	require.True(t, strings.HasPrefix(whole, got) && len(got) < len(whole), "%q", got)
}
