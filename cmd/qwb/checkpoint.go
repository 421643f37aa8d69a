package main

import (
	"github.com/spf13/cobra"

	"qwb"
	"qwb/export/language/weights"
)

// floatBackends are what runs a language model, or a model that is calibrated.
const floatBackends = "cpu, cuda (a GPU), or ptx (GPU kernels interpreted on the CPU: slow)"

// addLanguage adds the flags that commands which run checkpoints share.
func addLanguage(c *cobra.Command, o *qwb.LanguageOptions) {
	c.Flags().StringVar(&o.Tokenizer, "tokenizer", "", "tokenizer.json or tokenizer.bin (default: the one in the checkpoint or in its folder)")
	c.Flags().IntVar(&o.Group, "group-size", 0, "quantize the weights; this many consecutive weights share one scale (0: with --bits or --method, 64 halved until it divides every row)")
	c.Flags().IntVar(&o.Bits, "bits", 0, "quantize the weights to this many bits: 8 or 4 (0: 8, if --group-size or --method is given)")
	c.Flags().StringVar(&o.Method, "method", "", "how to choose scales: "+weights.MethodDoc+" (default: "+weights.Nearest+")")
	c.Flags().StringVar(&o.Judge, "judge", "", weights.Judge.Doc)
}

// languageFlags are the flags that addLanguage adds.
var languageFlags = []string{"tokenizer", "group-size", "bits", "method", "judge"}
