// Preloaded into a server that listens on all addresses and has no option for it: listen on 127.0.0.1 only.
const net = require("node:net");

const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  const callbacks = rest.filter((one) => typeof one === "function");
  return listen.call(this, { port: Number(port), host: "127.0.0.1" }, ...callbacks);
};
