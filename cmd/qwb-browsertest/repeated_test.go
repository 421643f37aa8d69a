package browsertest

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoRefreshIsLost: whenever reload is called while it runs, also in the very step in which it ends, the page is read once more after that.
func TestNoRefreshIsLost(t *testing.T) {
	source, err := os.ReadFile("../../reports/page/repeated.js")
	require.NoError(t, err)
	p := open(t, "about:blank", desk)
	var lost []int
	p.js(`import("data:text/javascript," + encodeURIComponent(`+quoted(string(source))+`)).then(async ({ repeated }) => {
		const lost = [];
		for (let steps = 0; steps < 30; steps++) {
			let begun = 0;
			const reload = repeated(async () => { begun++; });
			const first = reload();
			for (let i = 0; i < steps; i++) await null;
			const before = begun;
			await reload();
			await first;
			if (begun <= before) lost.push(steps);
		}
		return lost;
	})`, &lost)
	require.Empty(t, lost, "by how many steps a call came later")
}

// TestAFailedRefreshIsNoLastOne: who called hears of it, and the next call reads again.
func TestAFailedRefreshIsNoLastOne(t *testing.T) {
	source, err := os.ReadFile("../../reports/page/repeated.js")
	require.NoError(t, err)
	p := open(t, "about:blank", desk)
	var said []string
	p.js(`import("data:text/javascript," + encodeURIComponent(`+quoted(string(source))+`)).then(async ({ repeated }) => {
		let fails = true;
		const reload = repeated(async () => { if (fails) throw new Error("no answer"); }), said = [];
		await reload().catch((e) => said.push(e.message));
		said.push(String(reload.running()));
		fails = false;
		await reload();
		return said;
	})`, &said)
	require.Equal(t, []string{"no answer", "null"}, said)
}
