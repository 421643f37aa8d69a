// repeated makes a function of one that takes a while: calls while it runs are one more run, and whoever called waits for the last one. Its
// running() is what is waited for, null while nothing runs.
export function repeated(work) {
  let running = null, again = false;
  const call = () => {
    if (running) {
      again = true;
      return running;
    }
    running = (async () => {
      try {
        do {
          again = false;
          await work();
        } while (again);
      } finally {
        running = null; // in the same step as the last look at again: a call in between would be lost
      }
    })();
    return running;
  };
  call.running = () => running;
  return call;
}
