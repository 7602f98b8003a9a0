// What is wrong with the layout of the page as it is on the screen, in words; an empty list when nothing is.
() => {
  const SLACK = 1.5;
  const problems = new Set();
  const style = new Map();
  const css = (element) => {
    let found = style.get(element);
    if (!found) style.set(element, (found = getComputedStyle(element)));
    return found;
  };
  const name = (element) => {
    const id = element.id ? `#${element.id}` : "";
    const kind = typeof element.className === "string" && element.className ? `.${element.className.trim().split(/\s+/).join(".")}` : "";
    return `${element.localName}${id}${kind}`;
  };
  const short = (text) => (text.length > 40 ? `${text.slice(0, 40)}…` : text);
  const scrolls = (value) => value === "auto" || value === "scroll";
  const clips = (value) => value === "hidden" || value === "clip";
  // For screen readers only.
  const isHidden = (element) => element.closest(".hidden, .skip") !== null || css(element).clipPath !== "none";
  const dialog = document.querySelector("dialog[open]");
  // Elements over the page on purpose, and drawings whose parts lie over each other.
  const isOver = (element) => element.closest(".messages, .tip, dialog, .track") !== null;

  // The part of a box that its scrolling and clipping ancestors leave visible, or null.
  const visible = (element, box, from = element.parentElement) => {
    let { left, top, right, bottom } = box;
    for (let each = from; each && each !== document.body; each = each.parentElement) {
      const { overflowX, overflowY, position } = css(each);
      if (overflowX !== "visible" || overflowY !== "visible") {
        const outer = each.getBoundingClientRect();
        if (overflowX !== "visible") [left, right] = [Math.max(left, outer.left), Math.min(right, outer.right)];
        if (overflowY !== "visible") [top, bottom] = [Math.max(top, outer.top), Math.min(bottom, outer.bottom)];
      }
      if (position === "fixed") break;
    }
    return right - left > SLACK && bottom - top > SLACK ? { left, top, right, bottom } : null;
  };

  if (document.documentElement.scrollWidth > innerWidth) problems.add(`the page is ${document.documentElement.scrollWidth} px wide`);

  // An ellipsis is fine where the whole text is a tooltip.
  const isTold = (element) => {
    const titled = element.closest("[title]");
    return titled !== null && titled.title.includes(element.textContent.trim());
  };

  const root = dialog ?? document.body;
  const elements = [...root.querySelectorAll("*")].filter((element) => element.checkVisibility() && !isHidden(element) && !element.closest("svg"));
  for (const element of elements) {
    const { display, overflowX, overflowY, textOverflow, position } = css(element);
    const box = element.getBoundingClientRect();
    if (box.width === 0 || box.height === 0) continue;
    if (!element.closest(".track")) {
      const seen = visible(element, box);
      if (seen && (seen.right > innerWidth + SLACK || seen.left < -SLACK)) problems.add(`${name(element)} leaves the screen: ${Math.round(seen.left)} to ${Math.round(seen.right)}`);
      if (seen && (position === "fixed" || !document.documentElement.scrollHeight > innerHeight) && (seen.bottom > innerHeight + SLACK || seen.top < -SLACK)) problems.add(`${name(element)} leaves the screen: down to ${Math.round(seen.bottom)}`);
    }
    if (display === "inline" || element.localName === "input" || element.localName === "select" || element.closest(".track")) continue;
    const wide = element.scrollWidth > element.clientWidth + SLACK;
    const tall = element.scrollHeight > element.clientHeight + SLACK;
    if (wide && !scrolls(overflowX) && !(textOverflow === "ellipsis" && isTold(element))) {
      problems.add(`${name(element)} is too narrow: ${element.scrollWidth} px in ${element.clientWidth} px: ${short(element.textContent)}`);
    }
    if (tall && clips(overflowY) && !(textOverflow === "ellipsis" && isTold(element))) {
      problems.add(`${name(element)} is too low: ${element.scrollHeight} px in ${element.clientHeight} px: ${short(element.textContent)}`);
    }
  }

  // Text and controls must not lie over each other.
  const boxes = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const parent = node.parentElement;
    if (!node.textContent.trim() || parent.closest("svg, select, script, button, label.button") || !parent.checkVisibility() || isHidden(parent) || (!dialog && isOver(parent))) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const rect of range.getClientRects()) {
      const seen = visible(parent, rect, parent);
      if (!seen) continue;
      // A line box is higher than its letters.
      const spare = Math.max(0, (rect.height - parseFloat(css(parent).fontSize)) / 2);
      boxes.push({ owner: parent, words: short(node.textContent.trim()), ...seen, top: seen.top + spare, bottom: seen.bottom - spare });
    }
  }
  for (const control of root.querySelectorAll("button, input, select, label.button, canvas")) {
    if (!control.checkVisibility() || isHidden(control) || (!dialog && isOver(control)) || control.matches(".file input, #play-marks")) continue;
    const seen = visible(control, control.getBoundingClientRect());
    if (seen) boxes.push({ owner: control, words: name(control), ...seen });
  }
  boxes.sort((a, b) => a.top - b.top);
  boxes.forEach((one, index) => {
    for (let at = index + 1; at < boxes.length && boxes[at].top < one.bottom - SLACK; at += 1) {
      const other = boxes[at];
      if (Math.min(one.right, other.right) - Math.max(one.left, other.left) <= SLACK) continue;
      if (Math.min(one.bottom, other.bottom) - other.top <= SLACK || one.owner.contains(other.owner) || other.owner.contains(one.owner)) continue;
      problems.add(`"${one.words}" and "${other.words}" overlap`);
    }
  });

  // Neighbours in the flow must not overlap either.
  for (const parent of [root, ...elements]) {
    if (parent.closest(".track, canvas") || parent.matches("select, .file, .player-track")) continue;
    const children = [...parent.children].filter((child) => child.checkVisibility() && !isHidden(child) && !["fixed", "sticky"].includes(css(child).position) && css(child).display !== "inline" && !child.matches("wbr, dialog, script"));
    const rects = children.map((child) => child.getBoundingClientRect());
    rects.forEach((one, index) => {
      for (let at = index + 1; at < rects.length; at += 1) {
        const other = rects[at];
        const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
        const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
        if (across > SLACK && down > SLACK) problems.add(`${name(children[index])} and ${name(children[at])} overlap in ${name(parent)} by ${across.toFixed(0)} × ${down.toFixed(0)} px`);
      }
    });
  }

  // A list needs room for two rows.
  for (const list of root.querySelectorAll(".rows, .panel > ol, .panel > .list, .detail-body, .nodes")) {
    if (list.checkVisibility() && list.scrollHeight > list.clientHeight && list.clientHeight < 60) problems.add(`${name(list)} shows ${list.clientHeight} px of ${list.scrollHeight} px`);
  }

  // A finger needs 24 px, but for terms within a text.
  for (const control of root.querySelectorAll("button, select, summary")) {
    if (!control.checkVisibility() || control.matches(".term, .rule") || innerWidth >= 900) continue;
    const { width, height } = control.getBoundingClientRect();
    if (width < 24 || height < 24) problems.add(`${name(control)} is small for a finger: ${width.toFixed(0)} × ${height.toFixed(0)} px`);
  }
  return [...problems];
}
