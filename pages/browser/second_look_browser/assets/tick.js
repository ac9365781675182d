// A clock of its own: browsers slow the timers of a hidden page down, not those of a worker.
let timer = null;
onmessage = (message) => {
  clearInterval(timer);
  timer = setInterval(() => postMessage(0), message.data);
};
