// matcher makes a test from what somebody types: a part of a name, type:Conv, or /regex/. null is for no text and for a broken expression.
export function matcher(text) {
  text = text.trim();
  if (!text) return null;
  const expression = /^\/(.+?)\/?$/.exec(text);
  if (expression) {
    try {
      const re = new RegExp(expression[1], "i");
      return (n) => re.test(n.name);
    } catch {
      return null;
    }
  }
  const low = text.toLowerCase();
  if (low.startsWith("type:")) return (n) => n.op.toLowerCase() === low.slice(5).trim();
  return (n) => n.name.toLowerCase().includes(low) || n.op.toLowerCase() === low;
}
