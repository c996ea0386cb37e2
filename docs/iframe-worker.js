// Browsers start no worker of a page that is opened from a disk.  There, its script runs in a
// hidden frame instead, so that the search of this site needs no server.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.waiting = [];
      this.inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.inside.importScripts = (...urls) => Promise.all(urls.map((each) => this.run(each)));
      this.run(url).then(() => this.waiting.splice(0).forEach((data) => this.send(data)));
    }
    run(url) {
      return new Promise((done) => {
        const script = this.inside.document.createElement("script");
        script.src = url;
        script.onload = () => { this.ready = true; done(); };
        this.inside.document.body.append(script);
      });
    }
    send(data) {
      this.inside.dispatchEvent(new MessageEvent("message", { data }));
    }
    postMessage(data) {
      if (this.ready) this.send(data);
      else this.waiting.push(data);
    }
  };
}
