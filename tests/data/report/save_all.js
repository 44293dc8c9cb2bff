const note = (text) => console.log("SAVED " + text);
URL.createObjectURL = (blob) => { blob.text().then((it) => note(it.split("\n")[0].slice(0, 50))); return "blob:"; };
HTMLAnchorElement.prototype.click = function () { note(this.download + " " + this.href.slice(0, 14)); };
setTimeout(() => document.querySelectorAll(".save button").forEach((button) => button.click()), 6000);
