// Tells embedded traces which theme the reader chooses: light, dark or auto, which is the system's.
document.addEventListener("DOMContentLoaded", () => {
  const traces = [...document.querySelectorAll("iframe.trace")];
  const tell = (trace) => trace.contentWindow.postMessage({ theme: document.body.dataset.theme }, "*");
  const tellAll = () => traces.forEach(tell);
  for (const trace of traces) trace.addEventListener("load", () => tell(trace));
  new MutationObserver(tellAll).observe(document.body, { attributes: true, attributeFilter: ["data-theme"] });
  tellAll();
});
