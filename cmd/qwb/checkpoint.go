package main

import (
	"github.com/spf13/cobra"

	"qwb"
	"qwb/export/language/weights"
)

// floatBackends are what runs a language model, or a model that is calibrated.
const floatBackends = "cpu, cuda (a GPU), or ptx (the GPU's kernels, interpreted: slow)"

// addLanguage adds the flags that commands which run checkpoints share.
func addLanguage(c *cobra.Command, o *qwb.LanguageOptions) {
	c.Flags().StringVar(&o.Tokenizer, "tokenizer", "", "tokenizer.json or tokenizer.bin (default: the checkpoint's own, or the one beside it)")
	c.Flags().IntVar(&o.Group, "group-size", 0, "quantize its weights, this many in a row with one scale (0: 64, halved until it divides every row, if --bits or --method is given)")
	c.Flags().IntVar(&o.Bits, "bits", 0, "quantize its weights to this many bits, 8 or 4 (0: 8)")
	c.Flags().StringVar(&o.Method, "method", "", "how to choose scales: "+weights.MethodDoc+" (default: "+weights.Nearest+")")
	c.Flags().StringVar(&o.Judge, "judge", "", weights.Judge.Doc)
}

// languageFlags are the flags that addLanguage adds.
var languageFlags = []string{"tokenizer", "group-size", "bits", "method", "judge"}
